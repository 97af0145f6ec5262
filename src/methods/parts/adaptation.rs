//! Parameters that train, and how a network is made of them.

use std::ops::Range;
use std::sync::Arc;

use super::sample_cost::{of_parameters, of_prefix};
use crate::data::{Loader, TaskView};
use crate::learning::{Classifier, Prompting, QueryView};
use crate::methods::averaging::{Parameters, Requirement, RowPurpose, RowSelection};
use crate::methods::head_form::HeadForm;
use crate::model::{BatchNormMode, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Metrics, ModelFacts, Participant, PolicyError, Predictor, Restriction, RunContext, SampleCost,
    WireForm, kind_of,
};
use crate::wire::Kind;

/// Parameters that train: a whole network, a head, a prompt, low-rank pairs, adapters.
pub trait ModelAdaptation {
    /// Returns names, whole shapes, and whose the rows are.
    fn parameters(&self, model: &ModelFacts) -> Parameters;

    /// Returns start values of all parameters. The head draws at step 0 of `init`, others at steps of their own.
    ///
    /// # Errors
    /// When the backbone is not the one that the method needs.
    fn initial(
        &self,
        model: &ModelFacts,
        ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError>;

    /// Returns the rows that travel, train or answer.
    fn rows(&self, query: &RowQuery<'_>) -> RowSelection {
        query.rows(query.view.rows.clone())
    }

    /// Returns true if a parameter is sent, used for predictions or trained.
    ///
    /// One that does not train stays as it was received.
    fn takes_part(&self, query: &RowQuery<'_>, name: &str) -> bool {
        let _ = (query, name);
        true
    }

    /// Returns the dependence of prompts on queries, in training or at inference after a task.
    fn prompting(
        &self,
        model: &ModelFacts,
        task: usize,
        trains: bool,
    ) -> Option<Arc<dyn Prompting>> {
        let _ = (model, task, trains);
        None
    }

    /// Returns the multiplications that prompts add to a forward pass of a sample, without its query. By default they
    /// are prefixes, a matrix for each block.
    fn prompt_multiplications(&self, model: &ModelFacts, task: usize) -> f64 {
        let _ = task;
        let parameters = self.parameters(model);
        let prompts = parameters.iter().filter(|one| kind_of(&one.name) == Kind::Prompt);
        prompts.map(|one| of_prefix(model, one.shape[0])).sum()
    }

    /// Returns the multiplications of a sample in a task, for counts of floating-point operations.
    fn sample_cost(&self, model: &ModelFacts, task: usize) -> SampleCost {
        let asks_queries = self.prompting(model, task, false).is_some();
        let prompts = self.prompt_multiplications(model, task);
        of_parameters(model, &self.parameters(model), prompts, asks_queries)
    }

    /// Returns settings of the training of a task.
    fn settings(&self, view: &TaskView) -> TrainingSettings {
        let _ = view;
        TrainingSettings::default()
    }

    /// Returns the factor on the learning rate of a parameter.
    fn rate_factor(&self, name: &str) -> f64 {
        let _ = name;
        1.0
    }

    /// Prepares the server's parameters as a task starts. Tasks count from 0.
    fn begin_task(
        &self,
        model: &ModelFacts,
        task: usize,
        theta: ParameterSet,
        init: StreamKey,
    ) -> ParameterSet {
        let _ = (model, task, init);
        theta
    }

    /// Returns what the journal says of a client after its training, from the loader it trained on.
    ///
    /// # Errors
    /// When parameters do not fit.
    fn metrics(
        &self,
        model: &ModelFacts,
        participant: &Participant,
        trained: &ParameterSet,
        loader: &Loader,
    ) -> Result<Metrics, PolicyError> {
        let _ = (model, participant, trained, loader);
        Ok(Metrics::new())
    }

    /// Returns a model of these whole parameters that answers as the method does after a task.
    ///
    /// # Errors
    /// When they do not fit the backbone.
    fn predictor(
        &self,
        model: &ModelFacts,
        task: usize,
        theta: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        let prompting = self.prompting(model, task, false);
        Ok(Arc::new(Classifier::frozen_with(&ctx.backbone, theta, prompting)?))
    }

    /// Returns requirements on a scenario.
    fn requirements(&self) -> Vec<Requirement> {
        Vec::new()
    }

    /// Returns services that such parameters cannot bear.
    fn restrictions(&self) -> Vec<Restriction> {
        Vec::new()
    }
}

/// Settings of local training that follow from the parameters that train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingSettings {
    /// Fraction of hidden entries dropped inside adapters, or in a module.
    pub dropout: f64,
    /// Moments by which a network that trains normalizes.
    pub norms: BatchNormMode,
    /// True if batch norms may be among the trained parameters.
    pub has_batch_norms: bool,
    /// Image that a query is of, if prompts depend on queries.
    pub query: Option<QueryView>,
    /// Largest number of clients that train together.
    pub max_pack: usize,
}

impl TrainingSettings {
    /// Returns the moments by which a network that trains normalizes; none where no batch norm trains.
    pub fn batch_norms(&self) -> Option<BatchNormMode> {
        self.has_batch_norms.then_some(self.norms)
    }
}

impl Default for TrainingSettings {
    fn default() -> Self {
        TrainingSettings {
            dropout: 0.0,
            norms: BatchNormMode::Batch,
            has_batch_norms: false,
            query: None,
            max_pack: usize::MAX,
        }
    }
}

/// Question for rows: of which model, at which task, for which purpose.
#[derive(Clone, Copy, Debug)]
pub struct RowQuery<'a> {
    /// Dimensions of the model.
    pub model: &'a ModelFacts,
    /// A client's view of the task.
    pub view: &'a TaskView,
    /// Purpose of the rows.
    pub direction: RowPurpose,
    /// Round of the phase, from 0, where rounds differ.
    pub round: u32,
    /// Head rows in messages.
    pub head: HeadForm,
}

impl RowQuery<'_> {
    /// Returns the rows of parameters without rows by task, of which these head rows train.
    pub fn rows(&self, trained: Range<usize>) -> RowSelection {
        let head = match (self.direction, self.model.form) {
            (RowPurpose::Inference, _) => 0..self.model.classes,
            (RowPurpose::Training, _) | (RowPurpose::Up, WireForm::Lean) => trained,
            (RowPurpose::Up | RowPurpose::Down, _) => {
                self.head.down_rows(self.view, self.model.classes)
            }
        };
        RowSelection::new(head, 0..0)
    }

    /// Returns the index of the task.
    pub fn task(&self) -> usize {
        self.view.task.index()
    }
}
