//! `[client]`: local training.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader, defaults};

/// Local training.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientSection {
    /// Passes over the shard per round. Default 5.
    pub epochs: u32,
    /// Samples of a step; the last of an epoch may be smaller. Default 16.
    pub batch: u32,
    /// The step rule, made anew every round. Default AdamW.
    pub optimiser: OptimiserSection,
    /// The learning rate from epoch to epoch of a round. Default constant.
    #[serde(skip_serializing_if = "EpochSchedule::is_constant")]
    pub epoch_schedule: EpochSchedule,
    /// Epochs that `epoch_schedule` takes as a whole, of which a round has the beginning. Unset: those of the round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_epochs: Option<u32>,
    /// The learning rate from round to round of a task. Default constant.
    pub round_schedule: RoundSchedule,
    /// Largest global norm of the gradient; 0 is off. Unset: the method decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f64>,
    /// Whether training uses `[data.train]`; otherwise `[data.test]`. Default true.
    pub augment: bool,
}

/// A step rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum OptimiserSection {
    /// Adam with decoupled weight decay.
    Adamw {
        /// Learning rate. Default 0.001.
        lr: f64,
        /// Default 0 (then it is Adam).
        weight_decay: f64,
        /// Default `[0.9, 0.999]`.
        betas: [f64; 2],
        /// Default 1e-8.
        eps: f64,
    },
    /// Stochastic gradient descent.
    Sgd {
        /// Learning rate. Default 0.01.
        lr: f64,
        /// Default 0.
        momentum: f64,
        /// Default 0.
        weight_decay: f64,
    },
}

impl OptimiserSection {
    /// The learning rate.
    pub fn lr(&self) -> f64 {
        match self {
            OptimiserSection::Adamw { lr, .. } | OptimiserSection::Sgd { lr, .. } => *lr,
        }
    }
}

/// How the learning rate changes over the epochs of a round; every round begins anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EpochSchedule {
    /// The same rate in every epoch.
    #[default]
    Constant,
    /// Half a cosine: `lr/2 (1 + cos(pi e / epochs))` in epoch `e` from 0.
    Cosine,
    /// Nearly a quarter of a cosine: `lr cos(99 pi e / (200 (epochs - 1)))`, as CODA-Prompt's release and those built
    /// upon it have it (Fed-CPrompt, HePCo).
    QuarterCosine,
}

impl EpochSchedule {
    fn is_constant(&self) -> bool {
        *self == EpochSchedule::Constant
    }

    /// With the epochs that it takes, where these are not those of a round.
    fn read(table: &mut TableReader<'_>) -> (EpochSchedule, Option<u32>) {
        let doc = "the rate from epoch to epoch";
        let schedule = Param::new("epoch_schedule", EpochSchedule::Constant, doc)
            .source("releases of CODA-Prompt, Fed-CPrompt and HePCo: quarter-cosine");
        let schedule = table.get(&schedule);
        if schedule.is_constant() {
            table.foreign(&["schedule_epochs"], "epoch_schedule = \"constant\"");
            return (schedule, None);
        }
        let doc = "epochs of the whole schedule, of which a round has the first; its own if unset";
        let over = Param::unset("schedule_epochs", doc).source("release of Powder: 50");
        (schedule, table.optional(&over.at_least(1.0)))
    }
}

impl Choice for EpochSchedule {}

/// How the learning rate changes over the rounds of a task's phase; within a round it stays.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RoundSchedule {
    /// The same in every round.
    Constant,
    /// Falls to zero: `lr/2 (1 + cos(pi r / rounds))` in round `r` from 0.
    Cosine,
    /// Falls at milestones.
    MultiStep {
        /// Rounds of a task, from 0, at which the rate falls; ascending. Required.
        milestones: Vec<u32>,
        /// What it is multiplied with. Default 0.1.
        factor: f64,
    },
}

/// [`RoundSchedule`] without its numbers.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ScheduleKind {
    /// The same rate in every round.
    Constant,
    /// Falls to zero over the rounds of a task.
    Cosine,
    /// Falls by `factor` at `milestones`.
    MultiStep,
}

impl Choice for ScheduleKind {}

/// [`OptimiserSection`] without its numbers.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    /// Adam with decoupled weight decay.
    Adamw,
    /// Gradient descent, with momentum if wanted.
    Sgd,
}

impl Choice for Kind {}

impl ClientSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> ClientSection {
        let epochs = Param::new("epochs", 5, "passes over the shard per round").at_least(1.0);
        let batch = Param::new("batch", 16, "samples of a step").at_least(1.0);
        let clip = Param::unset("clip", "largest global norm of the gradient, 0 is off");
        let augment = Param::new("augment", true, "train on [data.train], not on [data.test]");
        let (epochs, batch) = (table.get(&epochs.source("HGP")), table.get(&batch.source("HGP")));
        let optimiser = table.table("optimiser", OptimiserSection::read);
        let (epoch_schedule, schedule_epochs) = EpochSchedule::read(table);
        ClientSection {
            epochs,
            batch,
            optimiser,
            epoch_schedule,
            schedule_epochs,
            round_schedule: table.table("round_schedule", RoundSchedule::read),
            clip: table.optional(&clip.at_least(0.0)),
            augment: table.get(&augment),
        }
    }
}

impl Default for ClientSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}

impl RoundSchedule {
    fn read(table: &mut TableReader<'_>) -> RoundSchedule {
        let kind = Param::new("kind", ScheduleKind::Constant, "the rate from round to round");
        match table.get(&kind.source("STSA: cosine")) {
            ScheduleKind::Constant => {
                table.foreign(&["milestones", "factor"], "kind = \"constant\"");
                RoundSchedule::Constant
            }
            ScheduleKind::Cosine => {
                table.foreign(&["milestones", "factor"], "kind = \"cosine\"");
                RoundSchedule::Cosine
            }
            ScheduleKind::MultiStep => {
                let rounds = "rounds of a task, from 0, at which the rate falls";
                let rounds = Param::required("milestones", vec![50, 75], rounds).source("STSA");
                let factor = Param::new("factor", 0.1, "what the rate is multiplied with");
                let milestones: Vec<u32> = table.get(&rounds);
                if !milestones.is_sorted() || milestones.is_empty() {
                    let help = "list them from the first to the last";
                    table.reject("milestones", "milestones must ascend", "out of order", help);
                }
                let factor = table.get(&factor.source("STSA").above(0.0).at_most(1.0));
                RoundSchedule::MultiStep { milestones, factor }
            }
        }
    }
}

impl OptimiserSection {
    fn read(table: &mut TableReader<'_>) -> OptimiserSection {
        let kind: Kind = table.get(&Param::new("kind", Kind::Adamw, "the step rule"));
        let lr = |default| Param::new("lr", default, "learning rate").above(0.0);
        let decay = |doc| Param::new("weight_decay", 0.0, doc).at_least(0.0);
        let section = match kind {
            Kind::Adamw => {
                let betas = Param::new("betas", [0.9, 0.999], "decay of the two moments");
                let eps = Param::new("eps", 1e-8, "added to the root").above(0.0);
                OptimiserSection::Adamw {
                    lr: table.get(&lr(0.001)),
                    weight_decay: table.get(&decay("decoupled weight decay")),
                    betas: table.get(&betas.at_least(0.0).below(1.0)),
                    eps: table.get(&eps),
                }
            }
            Kind::Sgd => {
                let momentum = Param::new("momentum", 0.0, "share of the last step kept");
                OptimiserSection::Sgd {
                    lr: table.get(&lr(0.01)),
                    momentum: table.get(&momentum.at_least(0.0).below(1.0)),
                    weight_decay: table.get(&decay("times the weight, added to the gradient")),
                }
            }
        };
        table.foreign(&["betas", "eps", "momentum"], &format!("kind = \"{}\"", kind.word()));
        section
    }
}

impl Default for OptimiserSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
