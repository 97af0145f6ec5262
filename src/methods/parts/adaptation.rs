//! Trained parameters of a method, and the network that they make of a backbone.

use std::ops::Range;
use std::sync::Arc;

use super::Demands;
use super::sample_cost::{of_prefix, with_prompts};
use crate::data::{Loader, TaskView};
use crate::learning::{Classifier, Prompting, QueryView};
use crate::methods::averaging::{Parameters, RowPurpose, RowSelection};
use crate::methods::head_form::HeadForm;
use crate::model::{BatchNormMode, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Metrics, ModelFacts, Participant, PolicyError, Predictor, RunContext, SampleCost, WireForm,
    kind_of,
};
use crate::wire::Kind;

/// Trained parameters of a method, and the network they make: a whole network, a head, a prompt, low-rank pairs,
/// adapters.
pub trait ModelAdaptation {
    /// Returns names and whole shapes of the parameters, and the owners of their rows.
    fn parameters(&self, model: &ModelFacts) -> Parameters;

    /// Returns start values of all parameters.
    ///
    /// The head draws at step 0 of `init`, other parameters at steps of their own.
    ///
    /// # Errors
    /// When the backbone is not one that the method supports.
    fn initial(
        &self,
        model: &ModelFacts,
        ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError>;

    /// Returns the rows that are sent, trained or used for predictions, depending on the query's purpose.
    fn rows(&self, query: &RowQuery<'_>) -> RowSelection {
        query.rows(query.view.rows.clone())
    }

    /// Returns true if a parameter is sent, used for predictions or trained, by the query's purpose.
    ///
    /// A parameter that is not trained keeps the values that were received.
    fn takes_part(&self, query: &RowQuery<'_>, name: &str) -> bool {
        let _ = (query, name);
        true
    }

    /// Returns the prompts that depend on queries, for training or inference; `None` if none do.
    fn prompting(
        &self,
        model: &ModelFacts,
        task: usize,
        trains: bool,
    ) -> Option<Arc<dyn Prompting>> {
        let _ = (model, task, trains);
        None
    }

    /// Returns the multiplications of a sample in a task, for counts of floating-point operations.
    ///
    /// By default prompts are prefixes, with a matrix for each block; see [`with_prompts`] for others.
    fn sample_cost(&self, model: &ModelFacts, task: usize) -> SampleCost {
        let parameters = self.parameters(model);
        let prompts = parameters.iter().filter(|one| kind_of(&one.name) == Kind::Prompt);
        let prompts = prompts.map(|one| of_prefix(model, one.shape[0])).sum();
        with_prompts(self, model, task, prompts)
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
    ///
    /// Methods that send the model of the previous task leave the parameters as they are: a plan then knows when two
    /// previous models are the same.
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

    /// Returns metrics of a client for the journal after its training, from the loader it trained on.
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

    /// Returns a model of these whole parameters that predicts as the method does after a task.
    ///
    /// # Errors
    /// When the parameters do not fit the backbone.
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

    /// Returns the demands of these parameters on scenario and engine.
    fn demands(&self) -> Demands {
        Demands::default()
    }
}

/// Settings of local training that follow from the parameters that train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingSettings {
    /// Dropout rate inside adapters, or in a module between backbone and head.
    pub dropout: f64,
    /// Moments that batch norms use in training.
    pub norms: BatchNormMode,
    /// True if batch norms may be among the trained parameters.
    pub has_batch_norms: bool,
    /// Image (augmented or not) of which queries are computed, if prompts depend on queries.
    pub query: Option<QueryView>,
    /// Largest number of clients that train together.
    pub max_pack: usize,
}

impl TrainingSettings {
    /// Returns the moments that batch norms use in training; `None` if no batch norm is trained.
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

/// Query for rows of parameters: model, task and purpose.
#[derive(Clone, Copy, Debug)]
pub struct RowQuery<'a> {
    /// Dimensions of the model.
    pub model: &'a ModelFacts,
    /// A client's view of the task.
    pub view: &'a TaskView,
    /// Purpose of the rows.
    pub direction: RowPurpose,
    /// Round of the phase, from 0; 0 if rounds do not differ.
    pub round: u32,
    /// Head rows that messages carry.
    pub head: HeadForm,
}

impl RowQuery<'_> {
    /// Returns the rows for a method without rows by task, which trains the head rows `trained`.
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
