//! Rows of NumPy arrays.

use super::{FileRows, PartRole, TableNames};
use crate::data::DataError;
use crate::data::numpy::{NamedArrays, broken};

/// Returns the rows of an array, with their labels and owners.
pub(super) fn rows(
    arrays: &NamedArrays,
    names: &TableNames,
    role: PartRole,
) -> Result<FileRows, DataError> {
    let client = names.client.as_deref().filter(|_| role == PartRole::Train);
    let owners = client.map(|client| arrays.labels(client)).transpose()?;
    let labels = arrays.labels(&names.label)?;
    let values = arrays.array(&names.input)?.rows(names.width);
    let values = values.map_err(|error| broken(&arrays.place(&names.input), &error))?;
    Ok(FileRows { values, labels, owners, columns: None, notes: Vec::new() })
}
