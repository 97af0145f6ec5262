//! `[federation]`: how many clients and rounds.

use clap::ValueEnum;
use serde::Serialize;

use super::UnitsSection;
use super::reader::{Choice, Keys};

/// How many clients and rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct FederationSection {
    /// Clients that own data.
    ///
    /// With a fresh population, how many there are to draw from.
    #[key(default = 10, at_least = 1.0, source = "HGP")]
    pub clients: u32,
    /// Rounds of a phase of a task.
    ///
    /// Of every phase that does not say otherwise.
    #[key(default = 5, at_least = 1.0, at_most = 1e7, source = "HGP")]
    pub rounds: u32,
    /// Clients that are registered and never sampled.
    ///
    /// They change no digest.
    #[key(default = 0, at_most = 1e6)]
    pub idle_clients: u32,
    /// Clients with frames of real size that never train.
    ///
    /// They take part in every round and are not aggregated.
    #[key(default = 0, at_most = 1e5)]
    #[serde(skip_serializing_if = "is_none")]
    pub load: u32,
    /// After NaN or wrong shapes.
    #[key(default = OnBadUpdate::Drop)]
    pub on_bad_update: OnBadUpdate,
    /// Mean of uploads that the server takes.
    #[key(flatten)]
    #[serde(flatten, skip_serializing_if = "FoldRule::is_mean")]
    pub fold: FoldRule,
    /// Parts of shards that act as clients of their own.
    #[key(table)]
    #[serde(skip_serializing_if = "UnitsSection::is_off")]
    pub units: UnitsSection,
}

/// How the server aggregates uploads, where the method averages parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "fold", rename_all = "kebab-case")]
#[keys(tag = "fold", default = Mean)]
pub enum FoldRule {
    /// The method's own, weighted as it says.
    Mean,
    /// Number by number, without weights; keeps all updates.
    Median,
    /// Number by number without the extremes; keeps all updates.
    TrimmedMean {
        /// Share of updates left out at either end.
        ///
        /// Rounded down; below a half.
        #[key(default = 0.1, at_least = 0.0, below = 0.5)]
        trim: f64,
    },
    /// The mean of updates of limited length.
    NormClipped {
        /// The largest norm of an update.
        ///
        /// Euclidean, over all of its numbers.
        #[key(name = "clip_norm", example = 1.0, above = 0.0)]
        #[serde(rename = "clip_norm")]
        norm: f64,
    },
}

impl FoldRule {
    /// Whether it is the method's own.
    pub fn is_mean(&self) -> bool {
        *self == FoldRule::Mean
    }
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

/// The rule for updates that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum OnBadUpdate {
    /// It is recorded, counted and left out.
    #[default]
    Drop,
    /// The run ends with an error.
    Abort,
}
