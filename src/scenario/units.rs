//! `[federation.units]`: parts of shards that act as separate clients (dummy clients).

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys};

/// Dummy clients: every client's shard of a task is cut at random into parts, which act alone in some phases.
///
/// Each part has its own messages.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct UnitsSection {
    /// Number of random parts of a shard that act as separate clients; 1: the whole shard.
    #[key(default = 1, at_least = 1.0, at_most = 1e6, source = "STSA: dummy clients")]
    pub count: u32,
    /// Rule for the sizes of the parts.
    #[key(default = UnitRule::Even, source = "STSA's code: remainder-last")]
    #[serde(skip_serializing_if = "UnitRule::is_even")]
    pub rule: UnitRule,
    /// Names of the phases in which the parts act.
    #[key(default = vec!["statistics".to_owned()])]
    pub phases: Vec<String>,
}

/// Rule for the number of samples per part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum UnitRule {
    /// Sizes that differ by at most one.
    ///
    /// A client with fewer samples than parts has one part per sample: the largest number of units, from which an
    /// estimate gains.
    #[default]
    Even,
    /// Equal sizes, with the remainder in the last part (STSA's code).
    ///
    /// A client with fewer samples than parts is a single unit.
    RemainderLast,
}

impl UnitRule {
    fn is_even(&self) -> bool {
        *self == UnitRule::Even
    }
}

impl UnitsSection {
    /// Returns true if shards stay whole everywhere.
    pub(super) fn is_off(&self) -> bool {
        self.count == 1
    }
}
