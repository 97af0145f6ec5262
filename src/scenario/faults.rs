//! `[faults]`: what goes wrong on clients.

use serde::Serialize;

use super::reader::{Param, TableReader, defaults};

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultsSection {
    /// Probability that a client crashes in a round, after the download and before the upload.
    /// Default 0.
    pub crash: f64,
}

impl FaultsSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> FaultsSection {
        let crash = Param::new("crash", 0.0, "probability per client and round");
        FaultsSection { crash: table.get(&crash.at_least(0.0).at_most(1.0)) }
    }
}

impl Default for FaultsSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
