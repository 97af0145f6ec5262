//! Common parts of methods with query-dependent prompts. They average prompts, cut into tasks, and a linear head on a
//! frozen transformer. Each method defines its prompts, their rows of a task, and their use.
//!
//! ```text
//! client   prompts, head <- down;  E epochs: minimize CE over the rows of the current task + the method's loss
//! server   prompts, head <- means weighted by n_m; rows of a task over the clients that trained it
//!          as a task starts: the method prepares its rows
//! ```
//! Clients keep nothing between rounds.

mod draws;

use clap::ValueEnum;

pub(super) use draws::{shares, uniform_parameter};

use super::HeadForm;
use super::averaging::{
    AveragingConfig, ClientWeighting, Parameters, Requirement, Rows, ServerState,
};
use super::parts::{LocalUpdate, ModelAdaptation, Parts, TrainingSettings, Workload};
use crate::learning::QueryView;
use crate::model::{HeadKind, HeadStart, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{ClientState, ModelFacts};
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Returns the requirement of a transformer, in whose blocks prompts are.
pub(super) fn blocks() -> Requirement {
    let instead = "train the head alone with `method.name = \"fedavg\"` and `train = \"head\"`";
    Requirement::blocks("a prompt", instead)
}

/// Rejects a prefix prompt with an odd number of rows, half of which are keys and half values.
pub(super) fn prompt_has_halves(table: &mut TableReader<'_>, prompt_len: u32) {
    if !prompt_len.is_multiple_of(2) {
        let message = format!("`prompt_len = {prompt_len}` cannot be split into two halves");
        table.reject("prompt_len", &message, "odd", "set an even number of rows");
    }
}

/// State that servers and clients of these methods keep, for the registry.
pub(super) const STATE: &str = "server: all prompts and the head; client: nothing";

/// Prompts in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum PoolForm {
    /// All prompts from the first round on.
    #[default]
    Fixed,
    /// Prompts of the tasks so far.
    Growing,
}

/// Keys that every method with prompts has in its `[method]` table.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Prompted {
    /// Image from which a query is computed, if training augments images.
    #[key(
        default = QueryView::Clean,
        source = "saves a pass; the public codes query augmented images"
    )]
    pub query: QueryView,
    /// Weight of a client in the mean.
    #[key(default = ClientWeighting::BySamples, source = "HGP; STSA's comparison has uniform")]
    pub client_weighting: ClientWeighting,
    /// Rows of the head in messages.
    #[key(default = HeadForm::Fixed, source = "the public code of HGP")]
    pub head_form: HeadForm,
    /// Start values of the head.
    #[key(
        default = HeadStart::Uniform,
        source = "PyTorch; HGP's code of DualPrompt has timm's normal"
    )]
    pub head_init: HeadStart,
}

impl Prompted {
    /// Returns the parts of FedAvg for an adaptation with prompts, with queries computed before training.
    pub(super) fn base<'m, S: ClientState, M: ServerState>(
        &self,
        prompts: &'m dyn ModelAdaptation,
    ) -> Parts<'m, S, M> {
        let averaging = AveragingConfig { weights: self.client_weighting, head: self.head_form };
        Parts { local: &QueriedTraining, ..Parts::fedavg(prompts, averaging) }
    }

    /// Returns the settings of training with prompts that depend on queries.
    pub(super) fn settings(&self) -> TrainingSettings {
        TrainingSettings { query: Some(self.query), ..TrainingSettings::default() }
    }

    /// Returns the initial head, drawn at `init`.
    pub(super) fn initial_head(&self, model: &ModelFacts, init: StreamKey) -> ParameterSet {
        self.head_init.parameters(model.classes, model.backbone.dim(), init)
    }
}

/// Adds a linear head to prompts; rows are averaged over the clients that trained them.
pub(super) fn with_head(prompts: Parameters, model: &ModelFacts) -> Parameters {
    prompts.head(HeadKind::Linear, model.classes, model.backbone.dim()).averaged_by_owner()
}

/// Returns start values: prompts uniform on -1..1, and the head.
///
/// Prompts are drawn at steps 1, 2, ... of `init`, in the order of their declaration.
pub(super) fn initial(
    all: &Parameters,
    model: &ModelFacts,
    prompted: &Prompted,
    init: StreamKey,
) -> ParameterSet {
    let prompts = all.iter().filter(|parameter| parameter.rows != Rows::Class).zip(1..);
    let drawn = prompts.map(|(prompt, number)| {
        (prompt.name.as_str(), uniform_parameter(&prompt.shape, init.step(number)))
    });
    drawn.collect::<ParameterSet>().merge(&prompted.initial_head(model, init))
}

/// Local training of FedAvg, before which the queries of all samples are computed.
struct QueriedTraining;

impl<S> LocalUpdate<S> for QueriedTraining {
    fn work(&self, load: &Workload<'_>) -> f64 {
        work(load, 0.0)
    }
}

/// Returns the sample passes of a participant: training, and one forward pass for the queries.
///
/// `passes` are further forward passes per training pass, a third of a training pass each.
pub(super) fn work(load: &Workload<'_>, passes: f64) -> f64 {
    load.samples as f64 * (f64::from(load.plan.epochs) * (1.0 + passes / 3.0) + 1.0 / 3.0)
}
