//! Rules for columns of every file format, and the errors for columns that break them.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::DataError;

/// Returns the first name that occurs a second time.
pub(super) fn twice<'a>(names: impl IntoIterator<Item = &'a String>) -> Option<&'a String> {
    let mut known = BTreeSet::new();
    names.into_iter().find(|name| !known.insert(*name))
}

/// Checks that no two columns share a name.
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

/// Returns the class names of a column from the schema metadata of Hugging Face's `datasets`.
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

/// Returns the bytes of a row as text.
///
/// # Errors
/// Returns an error if the bytes are not UTF-8.
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
