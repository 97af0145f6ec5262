//! `[federation.units]`: parts of shards that act as clients of their own.

use serde::Serialize;

use super::reader::{Param, TableReader, defaults};

/// Units: every client's shard of a task is cut at random into parts of nearly equal size, each with
/// messages of its own, in some phases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitsSection {
    /// Parts of a shard; a client with fewer samples has one per sample. Default 1: the whole shard.
    pub count: u32,
    /// Names of the phases in which they act. Default `["statistics"]`.
    pub phases: Vec<String>,
}

impl UnitsSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> UnitsSection {
        let count = Param::new("count", 1, "random parts of a shard that act as clients")
            .source("STSA: dummy clients")
            .at_least(1.0)
            .at_most(1e6);
        let phases = Param::new("phases", vec!["statistics".to_owned()], "where they act");
        UnitsSection { count: table.get(&count), phases: table.get(&phases) }
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
