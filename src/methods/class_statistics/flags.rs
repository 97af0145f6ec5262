//! Bits that mark the classes of a view with a known row in a table.
//!
//! A download has a row for every class of the view, with zeros for unknown ones.

use crate::data::TaskView;
use crate::wire::WireError;

/// Returns the number of bytes of a view's flags.
pub fn flag_bytes(view: &TaskView) -> usize {
    view.rows.len().div_ceil(8)
}

/// Returns one bit per class of a view, set if `known` is true for its head row.
pub fn flags(view: &TaskView, known: impl Fn(u32) -> bool) -> Vec<u8> {
    let mut flags = vec![0; flag_bytes(view)];
    for (at, row) in view.rows.clone().enumerate() {
        flags[at / 8] |= u8::from(known(row as u32)) << (at % 8);
    }
    flags
}

/// Returns the indices of the classes of a view whose flags are set.
///
/// The flags are at the start of `bytes`.
///
/// # Errors
/// When there are fewer flags than classes.
pub fn flagged(bytes: &[u8], view: &TaskView) -> Result<Vec<usize>, WireError> {
    let cut = || WireError::Malformed("flags of classes are cut short".to_owned());
    let flags = bytes.get(..flag_bytes(view)).ok_or_else(cut)?;
    Ok((0..view.rows.len()).filter(|at| flags[at / 8] >> (at % 8) & 1 == 1).collect())
}
