//! `[partition]`: which client holds which training samples of a task.
//!
//! Definitions: the HGP benchmark's "distribution-based label imbalance" and its two relatives
//! (arXiv 2406.02447 and the public framework of the same group), HePCo's three ratios, the
//! allocation of the MFCL line, and what the data themselves say (LEAF).

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader};

/// Who holds which samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionSection {
    /// The rule. Required.
    #[serde(flatten)]
    pub kind: PartitionKind,
    /// Samples every client must have in every task; otherwise the task is drawn again. Of a natural partition,
    /// samples of all tasks together; with less there is no run. Default 6.
    pub min_samples: u32,
    /// Draws before giving up. Default 9999.
    pub attempts: u32,
    /// Samples of a client's shard where `participation.population = "fresh"`. Required there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_client: Option<u32>,
}

/// The rule of a partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PartitionKind {
    /// Per class, client shares from `Dirichlet(beta)`; every sample drawn on its own.
    Dirichlet {
        /// Concentration: small is uneven. Required.
        beta: f64,
    },
    /// As `dirichlet`, but a client that holds its even share gets nothing of further classes.
    Capped {
        /// Concentration: small is uneven. Required.
        beta: f64,
    },
    /// Every client has as many samples, in proportions of its own from `Dirichlet(alpha)`.
    Lda {
        /// Concentration: small is uneven. Default 1.
        alpha: f64,
    },
    /// As the data say: every client is somebody in it, such as a speaker of a play, those who hold most first.
    Natural {
        /// What becomes of those that are no client, because there are more of them. Default `drop`.
        rest: Leftover,
    },
    /// Shuffled and dealt evenly.
    Iid,
    /// Every client draws so many classes of the task; a class is shared evenly by its holders.
    Quantity {
        /// Classes a client draws. Required.
        classes_per_client: u32,
    },
    /// As `dirichlet`, after every client has reserved a few samples (for many clients).
    Extended {
        /// Concentration of the samples not reserved. Required.
        beta: f64,
        /// Samples reserved per client. Default 7.
        picks: u32,
        /// Concentration of the classes of reserved samples. Default 0.05.
        picks_beta: f64,
    },
    /// HePCo's: every client of a fresh population draws a share of the task's classes and of
    /// each a share of its samples, on its own; shards may overlap.
    Ratios {
        /// Gamma: share of each held class. Default 0.1.
        split: f64,
        /// Kappa: share of the task's classes that a client holds. Default 0.6.
        category: f64,
        /// Beta: size of the last held class relative to the first; 1 is balanced. Default 1.
        imbalance: f64,
        /// Whether `imbalance` applies to the label counts that clients report and not to what
        /// they hold, as in two classes of HePCo's release. Default false.
        counts_only: bool,
    },
    /// Every client has consecutive slices of its own classes: for `tasks.arrival = "powder"`.
    Slices {
        /// Share of a class's training images. Default 0.2.
        share: f64,
        /// What the slice of a slot is counted by. Default `period`.
        by: SliceBy,
    },
}

/// Which of the slices of its classes a slot has: always a number modulo how many slices there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SliceBy {
    /// The slot's period: clients that share a class in a period hold the same images of it.
    Period,
    /// The slot's number among all, client by client: no two slots share a slice, where there are enough.
    Slot,
    /// The slot's client: it meets the same images of a class again, and shares none with others.
    Client,
}

impl Choice for SliceBy {}

/// What becomes of owners of data that are no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Leftover {
    /// Left out: nobody holds what they have.
    Drop,
    /// One after the other, those who hold most first, they are added to the client that holds least.
    Merge,
}

impl Choice for Leftover {}

/// [`PartitionKind`] without its numbers.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    /// Distribution-based label imbalance, by `beta`.
    Dirichlet,
    /// Dirichlet up to an even share of the task (STSA, LANDER).
    Capped,
    /// Equal sizes, proportions of every client by `alpha` (MFCL, FedHAF).
    Lda,
    /// Every client is a speaker of the play, those who say most first.
    Natural,
    /// Shuffled and dealt evenly.
    Iid,
    /// Every client draws `classes_per_client` classes.
    Quantity,
    /// Dirichlet, after a few reserved samples per client.
    Extended,
    /// Every fresh client a share of the classes, of each a share.
    Ratios,
    /// Consecutive parts of the classes of tasks of a client's own.
    Slices,
}

impl Choice for Kind {}

impl PartitionSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> PartitionSection {
        let kind = Param::required("kind", Kind::Dirichlet, "who holds which samples");
        let beta = || Param::required("beta", 0.5, "concentration; small is uneven").at_least(1e-6);
        let kind = table.require(&kind);
        let word = kind.map_or_else(|| "?".to_owned(), |kind: Kind| kind.word());
        let kind = match kind {
            None => {
                // Nobody knows which keys belong to an unreadable kind.
                table.accept_rest();
                PartitionKind::Iid
            }
            Some(Kind::Dirichlet) => PartitionKind::Dirichlet { beta: table.get(&beta()) },
            Some(Kind::Capped) => PartitionKind::Capped { beta: table.get(&beta()) },
            Some(Kind::Lda) => {
                let alpha = Param::new("alpha", 1.0, "concentration; small is uneven");
                let alpha = alpha.source("public code of MFCL; FedHAF does not state it");
                PartitionKind::Lda { alpha: table.get(&alpha.at_least(1e-6)) }
            }
            Some(Kind::Natural) => {
                let rest = Param::new("rest", Leftover::Drop, "speakers who are no client");
                PartitionKind::Natural { rest: table.get(&rest) }
            }
            Some(Kind::Iid) => PartitionKind::Iid,
            Some(Kind::Quantity) => {
                let classes = Param::required("classes_per_client", 2, "classes a client draws");
                PartitionKind::Quantity { classes_per_client: table.get(&classes.at_least(1.0)) }
            }
            Some(Kind::Extended) => {
                let picks = Param::new("picks", 7, "samples reserved per client and task");
                let picks_beta = Param::new("picks_beta", 0.05, "concentration of their classes");
                PartitionKind::Extended {
                    beta: table.get(&beta()),
                    picks: table.get(&picks.source("public code of HGP").at_least(1.0)),
                    picks_beta: table.get(&picks_beta.source("public code of HGP").at_least(1e-6)),
                }
            }
            Some(Kind::Ratios) => ratios(table),
            Some(Kind::Slices) => {
                let share = Param::new("share", 0.2, "share of a class's training images");
                let share = share.source("Powder's release").above(0.0).at_most(1.0);
                let by =
                    Param::new("by", SliceBy::Period, "what the slice of a slot is counted by");
                let by =
                    by.source("Powder's release: the period on ImageNet-R, the slot on DomainNet");
                PartitionKind::Slices { share: table.get(&share), by: table.get(&by) }
            }
        };
        let of_other_kinds = [
            "alpha",
            "rest",
            "beta",
            "classes_per_client",
            "picks",
            "picks_beta",
            "split",
            "category",
            "imbalance",
            "counts_only",
            "share",
            "by",
        ];
        table.foreign(&of_other_kinds, &format!("kind = \"{word}\""));
        let min_samples = Param::new("min_samples", 6, "samples every client has of every task");
        let attempts = Param::new("attempts", 9_999, "draws before giving up").at_least(1.0);
        let fresh = Param::unset("samples_per_client", "shard size of a fresh population");
        PartitionSection {
            kind,
            min_samples: table.get(&min_samples.source("public code of HGP")),
            attempts: table.get(&attempts.source("public code of HGP")),
            samples_per_client: table.optional(&fresh.at_least(1.0)),
        }
    }
}

fn ratios(table: &mut TableReader<'_>) -> PartitionKind {
    let share = |name: &'static str, default: f64, what: &'static str| {
        Param::new(name, default, what).source("HePCo").above(0.0).at_most(1.0)
    };
    let counts_only =
        Param::new("counts_only", false, "thin out what clients report, not what they hold");
    PartitionKind::Ratios {
        split: table.get(&share("split", 0.1, "share of each held class (gamma)")),
        category: table.get(&share("category", 0.6, "share of the classes held (kappa)")),
        imbalance: table.get(&share("imbalance", 1.0, "last held class against the first (beta)")),
        counts_only: table.get(&counts_only.source("two classes of HePCo's release")),
    }
}
