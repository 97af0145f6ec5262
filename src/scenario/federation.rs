//! `[federation]`: numbers of clients and rounds, and the aggregation rule.

use clap::ValueEnum;
use serde::Serialize;

use super::DummyClientsSection;
use super::reader::{Choice, Keys};

/// Numbers of clients and rounds, and the aggregation rule.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct FederationSection {
    /// Number of clients that own data.
    ///
    /// With a fresh population, the number of clients to draw from.
    #[key(default = 10, at_least = 1.0, source = "HGP")]
    pub clients: u32,
    /// Rounds per phase of a task.
    ///
    /// For every phase without its own number.
    #[key(default = 5, at_least = 1.0, at_most = 1e7, source = "HGP")]
    pub rounds: u32,
    /// Number of registered clients that are never sampled.
    ///
    /// They change no digest.
    #[key(default = 0, at_most = 1e6)]
    pub idle_clients: u32,
    /// Number of load clients: they exchange frames of real size and never train.
    ///
    /// They take part in every round, which waits for them as for others, and are not aggregated.
    #[key(default = 0, at_most = 1e5)]
    #[serde(skip_serializing_if = "is_none")]
    pub load_clients: u32,
    /// Rule for updates with NaN or wrong shapes.
    #[key(default = OnBadUpdate::Drop)]
    pub on_bad_update: OnBadUpdate,
    /// Aggregation of the uploads of a round.
    #[key(flatten)]
    #[serde(flatten, skip_serializing_if = "AggregationRule::is_mean")]
    pub aggregation: AggregationRule,
    /// Parts of shards that act as separate clients.
    #[key(table)]
    #[serde(skip_serializing_if = "DummyClientsSection::is_off")]
    pub dummy_clients: DummyClientsSection,
}

/// Aggregation of the uploads of a round, for methods that average parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Keys)]
#[serde(tag = "aggregation", rename_all = "kebab-case")]
#[keys(tag = "aggregation", default = Mean)]
pub enum AggregationRule {
    /// Mean of the method, with its weights.
    Mean,
    /// Coordinate-wise median without weights; keeps all updates in memory.
    Median,
    /// Coordinate-wise mean without the extremes; keeps all updates in memory.
    TrimmedMean {
        /// Fraction of updates left out at each end, rounded down; below one half.
        #[key(default = 0.1, at_least = 0.0, below = 0.5)]
        trim_fraction: f64,
    },
    /// Mean of updates whose norms are clipped.
    NormClipped {
        /// Largest Euclidean norm of an update, over all of its numbers.
        #[key(name = "clip_norm", example = 1.0, above = 0.0)]
        #[serde(rename = "clip_norm")]
        norm: f64,
    },
}

impl AggregationRule {
    /// Returns true if it is the method's own mean.
    pub fn is_mean(&self) -> bool {
        *self == AggregationRule::Mean
    }
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

/// Rule for updates that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum OnBadUpdate {
    /// Left out of the aggregate, recorded and counted.
    #[default]
    Drop,
    /// End of the run with an error.
    Abort,
}
