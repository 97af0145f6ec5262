//! `[federation.units]`: parts of shards that act as clients of their own.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys};

/// Units: every client's shard of a task is cut at random into parts, each with messages of its own, in
/// some phases.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct UnitsSection {
    /// Random parts of a shard that act as clients.
    ///
    /// 1: the whole shard.
    #[key(default = 1, at_least = 1.0, at_most = 1e6, source = "STSA: dummy clients")]
    pub count: u32,
    /// How a shard is cut.
    #[key(default = UnitRule::Even, source = "STSA's code: remainder-last")]
    #[serde(skip_serializing_if = "UnitRule::is_even")]
    pub rule: UnitRule,
    /// Where they act.
    ///
    /// Names of phases.
    #[key(default = vec!["statistics".to_owned()])]
    pub phases: Vec<String>,
}

/// How many samples of a shard a part gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum UnitRule {
    /// Sizes that differ by one at most.
    ///
    /// A client with fewer samples than parts has one per sample: as many units as there can be, which is
    /// what an estimate from units gains by.
    #[default]
    Even,
    /// As many each as go into all evenly, the rest into the last one (STSA's code).
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
    /// Whether shards stay whole everywhere.
    pub(super) fn is_off(&self) -> bool {
        self.count == 1
    }
}
