//! `[client]`: local training.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys, Param, TableReader};

/// Settings of local training.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct ClientSection {
    /// Passes over the shard per round.
    #[key(default = 5, at_least = 1.0, source = "HGP")]
    pub epochs: u32,
    /// Samples per step; the last batch of an epoch may be smaller.
    #[key(default = 16, at_least = 1.0, source = "HGP")]
    pub batch_size: u32,
    /// Optimizer, created again in every round.
    #[key(table)]
    pub optimizer: OptimizerSection,
    /// Schedule of the learning rate over the epochs of a round.
    #[key(default = EpochSchedule::Constant, source = "releases of CODA-Prompt, Fed-CPrompt and HePCo: quarter-cosine")]
    #[serde(skip_serializing_if = "EpochSchedule::is_constant")]
    pub epoch_schedule: EpochSchedule,
    /// Epochs of the whole schedule, of which a round has the first; default: those of the round.
    #[key(read = epoch_schedule.read_epochs(table, doc))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_epochs: Option<u32>,
    /// Schedule of the learning rate over the rounds of a task.
    #[key(table)]
    pub round_schedule: RoundSchedule,
    /// Largest global norm of the gradient; 0: no clipping. Default: that of the method.
    #[key(at_least = 0.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_grad_norm: Option<f64>,
    /// Training on the transform [data.train]; false: on [data.test].
    #[key(default = true)]
    pub augment: bool,
}

/// Optimizer of local training.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", default = Adamw)]
pub enum OptimizerSection {
    /// Adam with decoupled weight decay.
    Adamw {
        /// Learning rate.
        #[key(default = 0.001, above = 0.0)]
        lr: f64,
        /// Decoupled weight decay; with 0 it is Adam.
        #[key(default = 0.0, at_least = 0.0)]
        weight_decay: f64,
        /// Decay rates of the first and second moment.
        #[key(default = [0.9, 0.999], at_least = 0.0, below = 1.0)]
        betas: [f64; 2],
        /// Number added to the root of the second moment.
        #[key(default = 1e-8, above = 0.0)]
        eps: f64,
    },
    /// Gradient descent with optional momentum.
    Sgd {
        /// Learning rate.
        #[key(default = 0.01, above = 0.0)]
        lr: f64,
        /// Factor on the previous step.
        #[key(default = 0.0, at_least = 0.0, below = 1.0)]
        momentum: f64,
        /// Factor on the weight that is added to the gradient.
        #[key(default = 0.0, at_least = 0.0)]
        weight_decay: f64,
    },
}

impl OptimizerSection {
    /// Returns the learning rate.
    pub fn lr(&self) -> f64 {
        match self {
            OptimizerSection::Adamw { lr, .. } | OptimizerSection::Sgd { lr, .. } => *lr,
        }
    }
}

/// Schedule of the learning rate over the epochs of a round; every round restarts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum EpochSchedule {
    /// Constant rate.
    #[default]
    Constant,
    /// Half a cosine: `lr/2 (1 + cos(pi e / epochs))` in epoch `e` from 0.
    Cosine,
    /// Nearly a quarter of a cosine: `lr cos(99 pi e / (200 (epochs - 1)))`, as in the release of CODA-Prompt and those
    /// built on it (Fed-CPrompt, HePCo).
    QuarterCosine,
}

impl EpochSchedule {
    fn is_constant(&self) -> bool {
        *self == EpochSchedule::Constant
    }

    /// Reads the epochs of the schedule, if they are not those of a round.
    fn read_epochs(self, table: &mut TableReader<'_>, doc: &'static str) -> Option<u32> {
        if self.is_constant() {
            table.foreign(&["schedule_epochs"], "epoch_schedule = \"constant\"");
            return None;
        }
        let epochs = Param::unset("schedule_epochs", doc).source("release of Powder: 50");
        table.optional(&epochs.at_least(1.0))
    }
}

/// Schedule of the learning rate over the rounds of a task's phase; constant within a round.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[keys(tag = "kind", default = Constant, source = "STSA: cosine")]
pub enum RoundSchedule {
    /// Constant rate.
    Constant,
    /// Half a cosine to `end` over the rounds of a task.
    ///
    /// `end + (lr - end)/2 (1 + cos(pi max(r - lag, 0) / rounds))` in round `r` from 0.
    Cosine {
        /// Rounds by which the cosine is late.
        #[key(default = 0, source = "the release of PILoRA: 1")]
        #[serde(skip_serializing_if = "is_zero")]
        lag: u32,
        /// Rate at the end.
        #[key(default = 0.0, at_least = 0.0, source = "the release of LANDER: 1e-3")]
        #[serde(skip_serializing_if = "is_nothing")]
        end: f64,
    },
    /// Steps: times `factor` at each of `milestones`.
    MultiStep {
        /// Rounds of a task, from 0 and ascending, at which the rate falls.
        #[key(read = read_milestones(table, doc))]
        milestones: Vec<u32>,
        /// Factor on the rate at every milestone.
        #[key(default = 0.1, above = 0.0, at_most = 1.0, source = "STSA")]
        factor: f64,
    },
}

fn is_zero(lag: &u32) -> bool {
    *lag == 0
}

fn is_nothing(end: &f64) -> bool {
    *end == 0.0
}

fn read_milestones(table: &mut TableReader<'_>, doc: &'static str) -> Vec<u32> {
    let rounds = Param::required("milestones", vec![50, 75], doc).source("STSA");
    let milestones: Vec<u32> = table.get(&rounds);
    if !milestones.is_sorted() || milestones.is_empty() {
        let help = "sort them in ascending order";
        table.reject("milestones", "milestones are not in ascending order", "not ascending", help);
    }
    milestones
}
