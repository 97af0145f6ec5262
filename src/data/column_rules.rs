//! Rules that columns of all formats are read by, and the errors for those that break them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::DataError;

/// Returns the first name that was there before.
pub(super) fn twice<'a>(names: impl IntoIterator<Item = &'a String>) -> Option<&'a String> {
    let mut known = BTreeSet::new();
    names.into_iter().find(|name| !known.insert(*name))
}

/// Checks that no two columns have one name.
pub(super) fn differ<'a>(
    path: &Path,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<(), DataError> {
    match twice(names) {
        None => Ok(()),
        Some(name) => Err(DataError::advised(
            path,
            "columns of different names",
            format!("`{name}` twice"),
            "Rename one of them, or remove it",
        )),
    }
}

/// Returns the names of the numbers of a column in schema metadata that the hub's `datasets` writes.
pub(super) fn names_of_numbers(note: &str, column: &str) -> Option<Vec<String>> {
    let note: Value = serde_json::from_str(note).ok()?;
    let names = note.get("info")?.get("features")?.get(column)?.get("names")?.as_array()?;
    names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Returns the error for a column that is not there.
pub(super) fn lacking(path: &Path, name: &str, columns: &[String]) -> DataError {
    let advice = "Name the right one: data.input, data.label, data.client";
    let found = format!("the columns {}", columns.join(", "));
    DataError::advised(path, format!("a column `{name}`"), found, advice)
}

/// Returns the error for values of another type.
pub(super) fn unlike(
    path: &Path,
    name: &str,
    expected: &str,
    found: impl fmt::Display,
) -> DataError {
    let advice = "Name another column: data.input, data.label, data.client";
    let expected = format!("{expected} in the column `{name}`");
    DataError::advised(path, expected, format!("values of type {found}"), advice)
}

/// Bytes of a row as the text that they should be.
///
/// # Errors
/// Bytes that are not UTF-8.
pub(super) fn text<'a>(
    path: &Path,
    name: &str,
    row: usize,
    bytes: &'a [u8],
) -> Result<&'a str, DataError> {
    std::str::from_utf8(bytes).map_err(|_| {
        DataError::advised(
            path,
            format!("texts in UTF-8 in the column `{name}`"),
            format!("other bytes in row {row}"),
            "Write it again as UTF-8, or name another column: data.label, data.client",
        )
    })
}
