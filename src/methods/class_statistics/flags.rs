//! Flags of the classes of a view that a table describes, one bit per class. A download holds a row for every class,
//! with zeros for unknown ones.

use crate::data::TaskView;
use crate::wire::WireError;

/// Returns the number of bytes of the flags of a view.
pub fn flag_bytes(view: &TaskView) -> usize {
    view.rows.len().div_ceil(8)
}

/// Returns one bit for each class of a view: whether it is known by its head row.
pub fn flags(view: &TaskView, known: impl Fn(u32) -> bool) -> Vec<u8> {
    let mut flags = vec![0; flag_bytes(view)];
    for (at, row) in view.rows.clone().enumerate() {
        flags[at / 8] |= u8::from(known(row as u32)) << (at % 8);
    }
    flags
}

/// Returns the places among the classes of a view that are flagged at the start of these bytes.
///
/// # Errors
/// Fewer flags than classes.
pub fn flagged(bytes: &[u8], view: &TaskView) -> Result<Vec<usize>, WireError> {
    let cut = || WireError::Malformed("flags of classes are cut short".to_owned());
    let flags = bytes.get(..flag_bytes(view)).ok_or_else(cut)?;
    Ok((0..view.rows.len()).filter(|at| flags[at / 8] >> (at % 8) & 1 == 1).collect())
}
