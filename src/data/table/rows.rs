//! Rows of one file, and the names of what to read from it.

use std::path::Path;

use crate::data::DataError;
use crate::data::labels::Labels;

/// Names of the columns or arrays of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNames {
    /// Number of values in a row.
    pub width: usize,
    /// Name of the column or array of rows.
    pub input: String,
    /// Name of the column or array of labels.
    pub label: String,
    /// Name of the column or array of owners.
    pub client: Option<String>,
}

/// Role of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartRole {
    /// Training part. Its rows have owners if the scenario asks for them.
    Train,
    /// Test part. Its rows have no owners; a column of owners is ignored.
    Test,
}

/// Content of a file.
pub(super) struct FileRows {
    pub values: Vec<f32>,
    pub labels: Labels,
    pub owners: Option<Labels>,
    /// Names of the numbers in a row, if the file has any.
    pub columns: Option<Vec<String>>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Returns the error for lists of another width than the scenario says.
pub(super) fn wide(path: &Path, names: &TableNames, found: usize) -> DataError {
    DataError::advised(
        path,
        format!("rows of {} numbers", names.width),
        format!("rows of {found}"),
        format!("Set data.width = {found}"),
    )
}
