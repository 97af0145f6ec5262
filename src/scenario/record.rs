//! `[record]`: what is measured and written down.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use super::DirectLine;
use super::checkpoint::CheckpointSection;
use super::reader::{Choice, Param, TableReader, defaults};

/// What is measured and written down.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordSection {
    /// What is measured beside accuracy, forgetting and bytes. Default none.
    pub metrics: Vec<Metric>,
    /// Before which synchronisations `federated-bias` is measured. Default `first`.
    #[serde(skip_serializing_if = "Compared::is_usual")]
    pub bias: Compared,
    /// When the global model is evaluated. Default `round`; the end of a task always is.
    pub evaluate: Curve,
    /// What models are told when slots are tested (`tasks.arrival = "powder"`). Default `both`.
    #[serde(skip_serializing_if = "SlotsKnown::is_usual")]
    pub slots: SlotsKnown,
    /// Whether histograms of sizes and times are written. Default true.
    pub histograms: bool,
    /// Whether every table is written as Parquet as well. Changes no result. Default false.
    #[serde(skip_serializing_if = "is_off")]
    pub parquet: bool,
    /// Whether scalars are written for TensorBoard. Changes no result. Default false.
    #[serde(skip_serializing_if = "is_off")]
    pub tensorboard: bool,
    /// Whether it is counted after every task which class is taken for which. Changes no result. Default false.
    #[serde(skip_serializing_if = "is_off")]
    pub confusion: bool,
    /// After which tasks the server's model is kept as a file. Changes no result. Default `none`.
    #[serde(skip_serializing_if = "Models::is_usual")]
    pub models: Models,
    /// From where a killed run can go on.
    pub checkpoint: CheckpointSection,
    /// The table of `fedcast direct`, or the `slots.csv` of a run whose tasks of a client's own were trained alone, for
    /// forward transfer. Changes no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<PathBuf>,
    /// What is in it; read when the scenario is loaded.
    #[serde(skip)]
    pub trained_alone: Arc<[DirectLine]>,
}

/// A measure on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Entropy of client responses and distance of client prototypes before synchronisation.
    FederatedBias,
}

/// Before which synchronisations client models are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SlotsKnown {
    /// With the slot known, and without.
    #[default]
    Both,
    /// With the slot known only, so that a slot is asked about its own images and no others.
    #[serde(rename = "known")]
    #[value(name = "known")]
    Only,
}

/// After which tasks the server's model is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
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

impl SlotsKnown {
    fn is_usual(&self) -> bool {
        *self == SlotsKnown::Both
    }
}

impl Choice for Metric {}

impl Choice for Compared {}

impl Choice for Curve {}

impl Choice for SlotsKnown {}

impl Choice for Models {}

impl RecordSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> RecordSection {
        let evaluate = Param::new("evaluate", Curve::Round, "when the model is evaluated");
        let bias = "before which synchronisations `federated-bias` is measured: of a task, or all";
        let bias = Param::new("bias", Compared::First, bias);
        let slots = "what is told when slots are tested";
        let slots = Param::new("slots", SlotsKnown::Both, slots);
        let histograms = Param::new("histograms", true, "of sizes and times");
        let models = "after which tasks the server's model is kept as models/task-NN.safetensors";
        let models = Param::new("models", Models::None, models);
        let direct =
            "table of `fedcast direct` or slots.csv of slots trained alone: gives forward transfer";
        let direct = table.optional(&Param::<String>::unset("direct", direct));
        RecordSection {
            metrics: table.get(&Param::new("metrics", Vec::new(), "beside the usual ones")),
            bias: table.get(&bias),
            evaluate: table.get(&evaluate),
            slots: table.get(&slots),
            histograms: table.get(&histograms),
            parquet: table.get(&Param::new("parquet", false, "every table as Parquet as well")),
            tensorboard: table.get(&Param::new("tensorboard", false, "scalars for TensorBoard")),
            confusion: table.get(&Param::new("confusion", false, "which class is taken for which")),
            models: table.get(&models),
            checkpoint: table.table("checkpoint", CheckpointSection::read),
            direct: direct.map(PathBuf::from),
            trained_alone: Arc::new([]),
        }
    }
}

impl Default for RecordSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
