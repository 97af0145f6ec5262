//! Part of a document that a reading records.

use std::collections::BTreeSet;

/// Part of a document whose keys a reading records.
#[derive(Clone, Copy, Debug)]
pub(in crate::scenario::reader) enum Recorded<'s> {
    /// All keys.
    All,
    /// Keys of the table itself and of these tables in it.
    Tables(&'s BTreeSet<String>),
    /// No key.
    Nothing,
}

impl Recorded<'_> {
    /// Returns the part of a table inside this one.
    pub(super) fn below(self, name: &str) -> Self {
        match self {
            Recorded::Tables(tables) if tables.contains(name) => Recorded::All,
            Recorded::Tables(_) => Recorded::Nothing,
            whole => whole,
        }
    }
}

/// Place of a table: name of the document in errors, path, and the recorded part.
pub(super) type TablePlace<'s> = (&'static str, String, Recorded<'s>);
