//! Rows of one file, and what to look for in it.

use std::path::Path;

use crate::data::DataError;
use crate::data::labels::Labels;

/// Columns or arrays of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNames {
    /// Numbers in a row.
    pub width: usize,
    /// The column or array of rows.
    pub input: String,
    /// The column or array of labels.
    pub label: String,
    /// The column or array of owners.
    pub client: Option<String>,
}

/// Role of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartRole {
    /// Its rows have owners, where the scenario asks for them.
    Train,
    /// Rows without owners: a column of owners may be there or not.
    Test,
}

/// Content of a file.
pub(super) struct FileRows {
    pub values: Vec<f32>,
    pub labels: Labels,
    pub owners: Option<Labels>,
    /// Names of the numbers of a row, where they have any.
    pub columns: Option<Vec<String>>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Lists of another width than the scenario says.
pub(super) fn wide(path: &Path, names: &TableNames, found: usize) -> DataError {
    DataError::advised(
        path,
        format!("rows of {} numbers", names.width),
        format!("rows of {found}"),
        format!("Set data.width = {found}"),
    )
}
