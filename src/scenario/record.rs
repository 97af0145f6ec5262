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
    /// Rounds of a task in which `federated-bias` is measured, on client models before aggregation.
    #[key(default = Compared::First)]
    #[serde(skip_serializing_if = "Compared::is_usual")]
    pub bias: Compared,
    /// Times at which the global model is evaluated, in addition to the end of each task.
    #[key(default = Curve::Round)]
    pub evaluate: Curve,
    /// Evaluation of client tasks: with the client task given, or with and without.
    ///
    /// Only with `tasks.arrival = "client-tasks"`.
    #[key(default = TaskIdentity::Both)]
    #[serde(skip_serializing_if = "TaskIdentity::is_usual")]
    pub client_tasks: TaskIdentity,
    /// True to write histograms of message sizes in bytes and of latencies and job times in milliseconds.
    #[key(default = true)]
    pub histograms: bool,
    /// True to write every table as a Parquet file, too.
    ///
    /// Changes no result.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub parquet: bool,
    /// True to write scalars for TensorBoard.
    ///
    /// Changes no result.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub tensorboard: bool,
    /// True to write the confusion matrix after every task.
    ///
    /// Changes no result.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub confusion: bool,
    /// True to write the predicted class of every test sample after every task.
    ///
    /// Changes no result.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub predictions: bool,
    /// Tasks after which the server's model is saved as models/task-NN.safetensors.
    ///
    /// Changes no result.
    #[key(default = SavedModels::None)]
    #[serde(skip_serializing_if = "SavedModels::is_usual")]
    pub models: SavedModels,
    /// States from which a stopped run resumes.
    #[key(table)]
    pub checkpoint: CheckpointSection,
    /// CSV file with accuracies of client tasks trained alone, the reference of forward transfer.
    ///
    /// It is the table of `fedcast single-task`, or client_tasks.csv of a run of client tasks trained alone.
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
    /// Entropy of client responses and distance of client prototypes before aggregation.
    FederatedBias,
}

/// Rounds in which client models are compared before aggregation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// First round of every task.
    ///
    /// Measured after the first local training of the task, as in HGP.
    #[default]
    First,
    /// All rounds.
    ///
    /// Every round then also tests the model of each sampled client.
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

/// Evaluation of client tasks: with the client task given, or with and without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum TaskIdentity {
    /// With the client task given, and without it.
    #[default]
    Both,
    /// With the client task given only, so that it is tested on its own images alone.
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
