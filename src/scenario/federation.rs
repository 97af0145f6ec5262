//! `[federation]`: how many clients and rounds.

use clap::ValueEnum;
use serde::Serialize;

use super::UnitsSection;
use super::reader::{Choice, Param, TableReader, defaults};

/// How many clients and rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FederationSection {
    /// Clients that own data; with a fresh population, how many there are to draw from. Default 10.
    pub clients: u32,
    /// Rounds of every phase of a task that does not say otherwise. Default 5.
    pub rounds: u32,
    /// Clients that are registered and never asked. They change no digest. Default 0.
    pub idle_clients: u32,
    /// Clients that take part in every round with frames of real size, never train and are not
    /// folded. Default 0.
    #[serde(skip_serializing_if = "is_none")]
    pub load: u32,
    /// What happens after an update with NaN, infinity or a wrong shape. Default `drop`.
    pub on_bad_update: OnBadUpdate,
    /// What mean of uploads the server takes. Default `mean`.
    #[serde(flatten, skip_serializing_if = "FoldRule::is_mean")]
    pub fold: FoldRule,
    /// Parts of shards that act as clients of their own.
    #[serde(skip_serializing_if = "UnitsSection::is_off")]
    pub units: UnitsSection,
}

/// What mean of uploads the server takes, where the method folds them to a mean of parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "fold", rename_all = "kebab-case")]
pub enum FoldRule {
    /// The method's own.
    #[default]
    Mean,
    /// Number by number the median, without weights. Keeps all updates of a round.
    Median,
    /// Number by number the mean without the extremes. Keeps all updates of a round.
    TrimmedMean {
        /// Share of updates left out at either end, rounded down; below a half. Default 0.1.
        trim: f64,
    },
    /// The mean of updates none of which is longer than this.
    NormClipped {
        /// Largest Euclidean norm of an update, over all of its numbers.
        #[serde(rename = "clip_norm")]
        norm: f64,
    },
}

impl FoldRule {
    /// Whether it is the method's own.
    pub fn is_mean(&self) -> bool {
        *self == FoldRule::Mean
    }

    fn read(table: &mut TableReader<'_>) -> FoldRule {
        let fold = "how the server aggregates uploads, where the method averages parameters";
        let fold = table.get(&Param::new("fold", FoldWord::Mean, fold));
        let choice = match fold {
            FoldWord::Mean => FoldRule::Mean,
            FoldWord::Median => FoldRule::Median,
            FoldWord::TrimmedMean => {
                let trim = Param::new("trim", 0.1, "share of updates left out at either end");
                FoldRule::TrimmedMean { trim: table.get(&trim.at_least(0.0).below(0.5)) }
            }
            FoldWord::NormClipped => {
                let norm = Param::required("clip_norm", 1.0, "the largest norm of an update");
                FoldRule::NormClipped { norm: table.get(&norm.above(0.0)) }
            }
        };
        table.foreign(&["trim", "clip_norm"], &format!("fold = \"{}\"", fold.word()));
        choice
    }
}

/// The words of the key that says which.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum FoldWord {
    /// The method's own, weighted as it says.
    Mean,
    /// Number by number, without weights; keeps all updates.
    Median,
    /// Number by number without the extremes; keeps all updates.
    TrimmedMean,
    /// The mean of updates of limited length.
    NormClipped,
}

impl Choice for FoldWord {}

fn is_none(count: &u32) -> bool {
    *count == 0
}

/// The rule for updates that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum OnBadUpdate {
    /// It is recorded, counted and left out.
    #[default]
    Drop,
    /// The run ends with an error.
    Abort,
}

impl Choice for OnBadUpdate {}

impl FederationSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> FederationSection {
        let clients = Param::new("clients", 10, "clients that own data").at_least(1.0);
        let rounds =
            Param::new("rounds", 5, "rounds of a phase of a task").at_least(1.0).at_most(1e7);
        let idle = Param::new("idle_clients", 0, "clients that are registered and never sampled")
            .at_most(1e6);
        let load =
            Param::new("load", 0, "clients with frames of real size that never train").at_most(1e5);
        let bad = Param::new("on_bad_update", OnBadUpdate::Drop, "after NaN or wrong shapes");
        FederationSection {
            clients: table.get(&clients.source("HGP")),
            rounds: table.get(&rounds.source("HGP")),
            idle_clients: table.get(&idle),
            load: table.get(&load),
            on_bad_update: table.get(&bad),
            fold: FoldRule::read(table),
            units: table.table("units", UnitsSection::read),
        }
    }
}

impl Default for FederationSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
