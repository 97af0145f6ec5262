//! `[federation.units]`: parts of shards that act as clients of their own.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader, defaults};

/// Units: every client's shard of a task is cut at random into parts, each with messages of its own, in
/// some phases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitsSection {
    /// Parts of a shard. Default 1: the whole shard.
    pub count: u32,
    /// How a shard is cut. Default `even`.
    #[serde(skip_serializing_if = "UnitRule::is_even")]
    pub rule: UnitRule,
    /// Names of the phases in which they act. Default `["statistics"]`.
    pub phases: Vec<String>,
}

/// How many samples of a shard a part gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
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

impl Choice for UnitRule {}

impl UnitRule {
    fn is_even(&self) -> bool {
        *self == UnitRule::Even
    }
}

impl UnitsSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> UnitsSection {
        let count = Param::new("count", 1, "random parts of a shard that act as clients")
            .source("STSA: dummy clients")
            .at_least(1.0)
            .at_most(1e6);
        let phases = Param::new("phases", vec!["statistics".to_owned()], "where they act");
        let rule = Param::new("rule", UnitRule::Even, "how a shard is cut")
            .source("STSA's code: remainder-last");
        UnitsSection {
            count: table.get(&count),
            rule: table.get(&rule),
            phases: table.get(&phases),
        }
    }

    /// Whether shards stay whole everywhere.
    pub(super) fn is_off(&self) -> bool {
        self.count == 1
    }
}

impl Default for UnitsSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
