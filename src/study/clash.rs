//! Checks for changes that contradict a cell's label: two axes that set one key, and seeds.

use super::axes::{Axis, Pick};
use crate::scenario::Changes;
use crate::scenario::reader::TableReader;

/// Rejects changes that set a seed, because every cell has the seeds of its repetition.
pub(super) fn refuse_seeds(table: &mut TableReader<'_>, name: &str, changes: &Changes) {
    if let Some(key) = changes.seed() {
        let message = format!("`{key}` cannot be changed in a study");
        let help = "set seeds with `replicates` or `seeds`, the same for all cells";
        table.reject(name, &message, "a seed", help);
    }
}

/// Rejects axes if a later one sets or removes a key that an earlier one sets in the same cell.
///
/// `table` is the whole file.
pub(super) fn refuse_clashes(table: &mut TableReader<'_>, axes: &[Axis], excluded: &[Vec<Pick>]) {
    for (later, axis) in axes.iter().enumerate() {
        for (earlier, before) in axes[..later].iter().enumerate() {
            if let Some((arm, key)) = clash((earlier, before), (later, axis), excluded) {
                let message =
                    format!("the axes `{}` and `{}` both set `{key}`", before.name, axis.name);
                let label = format!("replaces what `{}` sets", before.name);
                let help = "set it on one axis only, or exclude the cells with [[exclude]]";
                let below = if axis.key.is_some() { "key" } else { axis.arms[arm].label.as_str() };
                table.reject_at(&format!("axes.{}.{below}", axis.name), &message, &label, help);
            }
        }
    }
}

/// Returns the first arm of the later axis that clashes with the earlier one, and the key.
///
/// Excluded cells are not considered.
fn clash(
    (earlier, before): (usize, &Axis),
    (later, axis): (usize, &Axis),
    excluded: &[Vec<Pick>],
) -> Option<(usize, String)> {
    let of_both = |one: usize, other: usize| {
        let both = [Pick { axis: earlier, arm: one }, Pick { axis: later, arm: other }];
        let out = |picks: &Vec<Pick>| !picks.is_empty() && picks.iter().all(|p| both.contains(p));
        (!excluded.iter().any(out)).then_some(())?;
        Some((other, axis.arms[other].changes.clash(&before.arms[one].changes)?))
    };
    (0..axis.arms.len()).find_map(|arm| (0..before.arms.len()).find_map(|one| of_both(one, arm)))
}
