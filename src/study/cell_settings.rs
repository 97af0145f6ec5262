//! `[[cell]]`: scenario, changes and published numbers of the grid cells with certain arms.
//!
//! ```toml
//! [[cell]]
//! method = "EWC"
//! setting = "CIFAR-100, 0.1"
//! scenario = "../baselines/ewc-cifar100-beta0.5.toml"   # in place of `base`
//! set = { partition.beta = 0.1 }
//! expected = { faa = 71.2, deviation = { faa = 0.8 } }  # in place of those of the scenario
//! ```
//!
//! Several entries may match a cell: the scenario and the numbers of the last one count, and all changes apply in
//! order.

use std::path::{Path, PathBuf};

use super::axes::{Axis, Pick, read_picks};
use super::clash::refuse_seeds;
use crate::scenario::reader::{Param, TableReader};
use crate::scenario::{Changes, ExpectedSection};

/// Scenario, changes and published numbers of all grid cells that have certain arms.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSettings {
    /// Arms of these cells.
    pub arms: Vec<Pick>,
    /// Absolute path of the scenario in place of the base.
    pub scenario: Option<PathBuf>,
    /// Changes of the scenario, after those of the arms.
    pub set: Changes,
    /// Published numbers in place of those of the scenario; empty ones remove these.
    pub expected: Option<ExpectedSection>,
}

/// Keys of `[[cell]]` that no axis of a study with such entries may have as its name.
const KEYS: [&str; 3] = ["scenario", "set", "expected"];

impl CellSettings {
    /// Reads an entry; its path is relative to `folder`.
    pub(super) fn read(table: &mut TableReader<'_>, axes: &[Axis], folder: &Path) -> CellSettings {
        let scenario = "scenario of these cells in place of the base, relative to this file";
        let scenario = table.optional(&Param::<String>::unset("scenario", scenario));
        let set = "changes of the scenario, after those of the arms";
        let set = table.get(&Param::new("set", Changes::default(), set));
        let expected = table.optional_table("expected", ExpectedSection::read);
        let arms = read_picks(table, axes);
        refuse_seeds(table, "set", &set);
        if scenario.is_none() && expected.is_none() && set == Changes::default() {
            let help = "write `scenario`, `set` or `expected` below its arms";
            table.reject("", "a [[cell]] needs something that its cells have", "only arms", help);
        }
        let scenario = scenario.map(|path| folder.join(path));
        CellSettings { arms, scenario, set, expected }
    }

    /// Returns true if a grid cell has all arms of the entry; `cell` holds an arm for every axis.
    pub fn apply_to(&self, cell: &[usize]) -> bool {
        self.arms.iter().all(|pick| cell.get(pick.axis) == Some(&pick.arm))
    }

    /// Returns true if all arms of the entry are in `arms`, so that numbers published for these include it.
    pub(super) fn is_within(&self, arms: &[Pick]) -> bool {
        self.arms.iter().all(|pick| arms.contains(pick))
    }
}

/// Rejects entries that no cell of `grid` matches, and axes with the name of one of their keys.
///
/// `table` is the whole file; `grid` holds an arm for every axis.
pub(super) fn refuse_unmatched(
    table: &mut TableReader<'_>,
    entries: &[CellSettings],
    axes: &[Axis],
    grid: &[Vec<usize>],
) {
    for (place, entry) in entries.iter().enumerate() {
        if entry.arms.is_empty() {
            let help = "name an arm of at least one axis; `set` at the top changes all cells";
            table.reject_item("cell", place, "a [[cell]] without an arm", "no arm", help);
        } else if !grid.iter().any(|cell| entry.apply_to(cell)) {
            let help = "remove it, or the [[exclude]] that has these arms";
            let message = "no cell of the grid has the arms of this [[cell]]";
            table.reject_item("cell", place, message, "excluded", help);
        }
    }
    let taken = axes.iter().filter(|axis| KEYS.contains(&axis.name.as_str()));
    for Axis { name, .. } in taken.filter(|_| !entries.is_empty()) {
        let message = format!("with [[cell]] an axis cannot have the name `{name}`");
        let help = "rename it: entries of [[cell]] have a key of this name";
        table.reject_at(&format!("axes.{name}"), &message, "this axis", help);
    }
}

#[cfg(test)]
mod tests;
