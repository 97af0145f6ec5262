//! `[record]`: what is measured and written down.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use super::DirectLine;
use super::checkpoint::CheckpointSection;
use super::reader::{Choice, Keys};

/// What is measured and written down.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct RecordSection {
    /// Beside the usual ones.
    ///
    /// The usual ones are accuracy, forgetting and bytes.
    #[key(default = Vec::new())]
    pub metrics: Vec<Metric>,
    /// Before which synchronisations `federated-bias` is measured: of a task, or all.
    #[key(default = Compared::First)]
    #[serde(skip_serializing_if = "Compared::is_usual")]
    pub bias: Compared,
    /// When the model is evaluated.
    ///
    /// The global model; the end of a task always is measured.
    #[key(default = Curve::Round)]
    pub evaluate: Curve,
    /// What is told when slots are tested.
    ///
    /// Only with `tasks.arrival = "powder"`.
    #[key(default = TaskIdentity::Both)]
    #[serde(skip_serializing_if = "TaskIdentity::is_usual")]
    pub slots: TaskIdentity,
    /// Of sizes and times.
    #[key(default = true)]
    pub histograms: bool,
    /// Every table as Parquet as well.
    ///
    /// Changes no result, as the next three.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub parquet: bool,
    /// Scalars for TensorBoard.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub tensorboard: bool,
    /// Which class is taken for which.
    ///
    /// Counted after every task.
    #[key(default = false)]
    #[serde(skip_serializing_if = "is_off")]
    pub confusion: bool,
    /// After which tasks the server's model is kept as models/task-NN.safetensors.
    #[key(default = Models::None)]
    #[serde(skip_serializing_if = "Models::is_usual")]
    pub models: Models,
    /// From where a killed run can go on.
    #[key(table)]
    pub checkpoint: CheckpointSection,
    /// Table of `fedcast direct` or slots.csv of slots trained alone: gives forward transfer.
    ///
    /// Changes no result.
    #[key(first)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<PathBuf>,
    /// What is in it; read when the scenario is loaded.
    #[key(value = Arc::new([]))]
    #[serde(skip)]
    pub trained_alone: Arc<[DirectLine]>,
}

/// A measure on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Entropy of client responses and distance of client prototypes before synchronisation.
    FederatedBias,
}

/// Before which synchronisations client models are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    /// The first of every task.
    ///
    /// Right after the first local training, where HGP measures.
    #[default]
    First,
    /// Every round's.
    ///
    /// Each costs a test of every client's model.
    Round,
}

impl Compared {
    fn is_usual(&self) -> bool {
        *self == Compared::First
    }
}

/// When the global model is evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Curve {
    /// After every round.
    #[default]
    Round,
    /// After every task.
    Task,
    /// Never, not even after tasks: for benches and timing studies, which no scenario asks for.
    #[value(skip)]
    Never,
}

/// What models are told when they are tested on tasks of a client's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum TaskIdentity {
    /// With the slot known, and without.
    #[default]
    Both,
    /// With the slot known only, so that a slot is asked about its own images and no others.
    #[serde(rename = "known")]
    #[value(name = "known")]
    Only,
}

/// After which tasks the server's model is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Models {
    /// After none.
    #[default]
    None,
    /// After the last.
    Last,
    /// After every task.
    Tasks,
}

impl Models {
    fn is_usual(&self) -> bool {
        *self == Models::None
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
