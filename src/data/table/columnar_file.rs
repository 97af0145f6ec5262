//! Rows of a Parquet or Arrow file: a column of lists, or all columns except labels and owners.

use std::path::Path;

use super::header::Header;
use super::{FileRows, PartRole, TableNames, wide};
use crate::data::columnar::ColumnarFile;
use crate::data::parts::Reference;
use crate::data::{Cause, DataError};

pub(super) fn read(
    path: &Path,
    names: &TableNames,
    which: (PartRole, Option<&Reference>),
) -> Result<FileRows, DataError> {
    let table = ColumnarFile::open(path)?;
    let columns = table.names();
    if columns.contains(&names.input) {
        return lists(&table, path, names, which.0);
    }
    let header = Header::read(path, &columns, names, which)?;
    let labels = table.labels(&columns[header.label])?;
    let owners = header.client.map(|client| table.labels(&columns[client])).transpose()?;
    // The row count in the file's footer may be wrong, so it is not trusted.
    let rows = labels.len();
    let mut values = vec![0.0; rows * names.width];
    let of_row = header.names(&columns);
    for (place, name) in of_row.iter().enumerate() {
        let column = table.numbers(name)?;
        if column.values.len() != rows {
            let expected = format!("a number a row in the column `{name}`");
            return Err(DataError::because(Cause::OtherContent, path, expected, "lists"));
        }
        for (row, value) in column.values.into_iter().enumerate() {
            values[row * names.width + place] = value;
        }
    }
    Ok(FileRows { values, labels, owners, columns: Some(of_row), notes: header.notes })
}

/// Reads rows that are lists in one column.
fn lists(
    table: &ColumnarFile,
    path: &Path,
    names: &TableNames,
    role: PartRole,
) -> Result<FileRows, DataError> {
    let labels = table.labels(&names.label)?;
    let client = names.client.as_deref().filter(|_| role == PartRole::Train);
    let owners = client.map(|client| table.labels(client)).transpose()?;
    let column = table.numbers(&names.input)?;
    if let Some(other) = column.counts.iter().find(|count| **count as usize != names.width) {
        return Err(wide(path, names, *other as usize));
    }
    Ok(FileRows { values: column.values, labels, owners, columns: None, notes: Vec::new() })
}
