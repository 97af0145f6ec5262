//! `[client]`: local training.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys, Param, TableReader};

/// Local training.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct ClientSection {
    /// Passes over the shard per round.
    #[key(default = 5, at_least = 1.0, source = "HGP")]
    pub epochs: u32,
    /// Samples of a step.
    ///
    /// The last of an epoch may be smaller.
    #[key(default = 16, at_least = 1.0, source = "HGP")]
    pub batch: u32,
    /// The step rule, made again every round.
    #[key(table)]
    pub optimiser: OptimizerSection,
    /// The rate from epoch to epoch.
    ///
    /// Of a round.
    #[key(default = EpochSchedule::Constant, source = "releases of CODA-Prompt, Fed-CPrompt and HePCo: quarter-cosine")]
    #[serde(skip_serializing_if = "EpochSchedule::is_constant")]
    pub epoch_schedule: EpochSchedule,
    /// Epochs of the whole schedule, of which a round has the first; its own if unset.
    #[key(read = epoch_schedule.read_epochs(table, doc))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_epochs: Option<u32>,
    /// The learning rate from round to round of a task.
    #[key(table)]
    pub round_schedule: RoundSchedule,
    /// Largest global norm of the gradient, 0 is off.
    ///
    /// Unset: the method decides.
    #[key(at_least = 0.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// Train on [data.train], not on [data.test].
    #[key(default = true)]
    pub augment: bool,
}

/// The step rule.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", default = Adamw)]
pub enum OptimizerSection {
    /// Adam with decoupled weight decay.
    Adamw {
        /// Learning rate.
        #[key(default = 0.001, above = 0.0)]
        lr: f64,
        /// Decoupled weight decay.
        ///
        /// With 0 it is Adam.
        #[key(default = 0.0, at_least = 0.0)]
        weight_decay: f64,
        /// Decay of the two moments.
        #[key(default = [0.9, 0.999], at_least = 0.0, below = 1.0)]
        betas: [f64; 2],
        /// Added to the root.
        #[key(default = 1e-8, above = 0.0)]
        eps: f64,
    },
    /// Gradient descent, with momentum if wanted.
    Sgd {
        /// Learning rate.
        #[key(default = 0.01, above = 0.0)]
        lr: f64,
        /// Share of the last step kept.
        #[key(default = 0.0, at_least = 0.0, below = 1.0)]
        momentum: f64,
        /// Times the weight, added to the gradient.
        #[key(default = 0.0, at_least = 0.0)]
        weight_decay: f64,
    },
}

impl OptimizerSection {
    /// The learning rate.
    pub fn lr(&self) -> f64 {
        match self {
            OptimizerSection::Adamw { lr, .. } | OptimizerSection::Sgd { lr, .. } => *lr,
        }
    }
}

/// How the learning rate changes over the epochs of a round; every round begins again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum EpochSchedule {
    /// The same rate in every epoch.
    #[default]
    Constant,
    /// Half a cosine: `lr/2 (1 + cos(pi e / epochs))` in epoch `e` from 0.
    Cosine,
    /// Nearly a quarter of a cosine: `lr cos(99 pi e / (200 (epochs - 1)))`, as CODA-Prompt's release and those built
    /// on it have it (Fed-CPrompt, HePCo).
    QuarterCosine,
}

impl EpochSchedule {
    fn is_constant(&self) -> bool {
        *self == EpochSchedule::Constant
    }

    /// Epochs that it takes, where these are not those of a round.
    fn read_epochs(self, table: &mut TableReader<'_>, doc: &'static str) -> Option<u32> {
        if self.is_constant() {
            table.foreign(&["schedule_epochs"], "epoch_schedule = \"constant\"");
            return None;
        }
        let epochs = Param::unset("schedule_epochs", doc).source("release of Powder: 50");
        table.optional(&epochs.at_least(1.0))
    }
}

/// The rate from round to round.
///
/// Over the rounds of a task's phase; within a round it stays.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", default = Constant, source = "STSA: cosine")]
pub enum RoundSchedule {
    /// The same rate in every round.
    Constant,
    /// Falls to zero over the rounds of a task.
    ///
    /// `lr/2 (1 + cos(pi r / rounds))` in round `r` from 0.
    Cosine,
    /// Falls by `factor` at `milestones`.
    MultiStep {
        /// Rounds of a task, from 0, at which the rate falls.
        ///
        /// Ascending.
        #[key(read = read_milestones(table, doc))]
        milestones: Vec<u32>,
        /// What the rate is multiplied with.
        #[key(default = 0.1, above = 0.0, at_most = 1.0, source = "STSA")]
        factor: f64,
    },
}

fn read_milestones(table: &mut TableReader<'_>, doc: &'static str) -> Vec<u32> {
    let rounds = Param::required("milestones", vec![50, 75], doc).source("STSA");
    let milestones: Vec<u32> = table.get(&rounds);
    if !milestones.is_sorted() || milestones.is_empty() {
        let help = "list them from the first to the last";
        table.reject("milestones", "milestones must ascend", "out of order", help);
    }
    milestones
}
