//! `[faults]`: what goes wrong on clients.

use serde::Serialize;

use super::preset::Preset;
use super::reader::{Param, TableReader, defaults};

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultsSection {
    /// Probability that a client crashes in a round, after the download and before the upload.
    /// Default 0; 0.017 with the preset `production`.
    pub crash: f64,
}

impl FaultsSection {
    /// The defaults of a preset.
    pub fn of(preset: Preset) -> FaultsSection {
        defaults(|table| FaultsSection::read(table, preset))
    }

    pub(super) fn read(table: &mut TableReader<'_>, preset: Preset) -> FaultsSection {
        let crash = if preset == Preset::Production { 0.017 } else { 0.0 };
        let crash = Param::new("crash", crash, "probability per client and round");
        FaultsSection { crash: table.get(&crash.at_least(0.0).at_most(1.0)) }
    }
}

impl Default for FaultsSection {
    fn default() -> Self {
        FaultsSection::of(Preset::Ideal)
    }
}
