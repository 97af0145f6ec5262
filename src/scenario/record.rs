//! `[record]`: metrics and files of a run.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use super::SingleTaskLine;
use super::checkpoint::CheckpointSection;
use super::reader::{Choice, Keys};

/// Metrics and files of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct RecordSection {
    /// Metrics in addition to accuracy, forgetting and bytes.
    #[key(default = Vec::new())]
    pub metrics: Vec<OptionalMetric>,
    /// Rounds of a task in which `federated-bias` is measured, before synchronization.
    #[key(default = Compared::First)]
    #[serde(skip_serializing_if = "Compared::is_usual")]
    pub bias: Compared,
    /// Times at which the global model is evaluated, besides the end of a task.
    #[key(default = Curve::Round)]
    pub evaluate: Curve,
    /// Knowledge of the client task in tests of client tasks.
    ///
    /// Only with `tasks.arrival = "client-tasks"`.
    #[key(default = TaskIdentity::Both)]
    #[serde(skip_serializing_if = "TaskIdentity::is_usual")]
    pub client_tasks: TaskIdentity,
    /// Histograms of sizes and times.
    #[key(default = true)]
    pub histograms: bool,
    /// Tables as Parquet files, too.
    ///
    /// Changes no result, as the next four.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub parquet: bool,
    /// Scalars for TensorBoard.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub tensorboard: bool,
    /// Confusion matrix after every task.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub confusion: bool,
    /// Predicted class of every test sample after every task.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub predictions: bool,
    /// Tasks after which the server's model is saved as models/task-NN.safetensors.
    #[key(default = SavedModels::None)]
    #[serde(skip_serializing_if = "SavedModels::is_usual")]
    pub models: SavedModels,
    /// States from which a stopped run resumes.
    #[key(table)]
    pub checkpoint: CheckpointSection,
    /// Table of `fedcast single-task`, or client_tasks.csv of client tasks trained alone, for forward transfer.
    ///
    /// Changes no result.
    #[key(first)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_task: Option<PathBuf>,
    /// Content of the file; read when the scenario is loaded.
    #[key(value = Arc::new([]))]
    #[serde(skip)]
    pub trained_alone: Arc<[SingleTaskLine]>,
}

/// Optional metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum OptionalMetric {
    /// Entropy of client responses and distance of client prototypes before synchronization.
    FederatedBias,
}

/// Rounds in which client models are compared before synchronization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// First round of every task.
    ///
    /// Right after the first local training, when HGP measures.
    #[default]
    First,
    /// All rounds.
    ///
    /// Each costs a test of every client's model.
    Round,
}

impl Compared {
    fn is_usual(&self) -> bool {
        *self == Compared::First
    }
}

/// Times at which the global model is evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Curve {
    /// After every round.
    #[default]
    Round,
    /// After every task.
    Task,
    /// Never, not even after tasks: for benches and timing studies; no scenario may ask for it.
    #[value(skip)]
    Never,
}

/// Knowledge of the client task in tests of models on client tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum TaskIdentity {
    /// With the client task known, and without.
    #[default]
    Both,
    /// With the client task known only, so that its own images are the only test.
    #[serde(rename = "known")]
    #[value(name = "known")]
    Only,
}

/// Tasks after which the server's model is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum SavedModels {
    /// No task.
    #[default]
    None,
    /// Last task.
    Last,
    /// Every task.
    Tasks,
}

impl SavedModels {
    fn is_usual(&self) -> bool {
        *self == SavedModels::None
    }
}

fn is_off(flag: &bool) -> bool {
    !flag
}

impl TaskIdentity {
    fn is_usual(&self) -> bool {
        *self == TaskIdentity::Both
    }
}
