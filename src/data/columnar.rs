//! Files of columns, Parquet or Arrow, and the rules that both are read by.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde_json::Value;

use super::DataError;
use super::arrow_file::ArrowFile;
use super::columns::{Column, Table};
use super::labels::Labels;
use super::part_files::has_ending;

/// A file of columns that is open.
pub(super) enum ColumnarFile {
    Parquet(Table),
    Arrow(ArrowFile),
}

impl ColumnarFile {
    /// Opens a file: of Arrow where its name ends so, of Parquet otherwise.
    ///
    /// # Errors
    /// A file that is missing, cut short or of another format; two columns of one name.
    pub fn open(path: &Path) -> Result<ColumnarFile, DataError> {
        match is_arrow(path) {
            true => ArrowFile::open(path).map(ColumnarFile::Arrow),
            false => Table::open(path).map(ColumnarFile::Parquet),
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            ColumnarFile::Parquet(file) => file.path(),
            ColumnarFile::Arrow(file) => file.path(),
        }
    }

    /// Columns as they were named, without what lies inside of them.
    pub fn names(&self) -> Vec<String> {
        match self {
            ColumnarFile::Parquet(file) => file.names(),
            ColumnarFile::Arrow(file) => file.names(),
        }
    }

    /// One label or owner per row, with the names that the file gives to its numbers.
    ///
    /// # Errors
    /// No such column, neither numbers nor texts, missing values, damage.
    pub fn labels(&self, name: &str) -> Result<Labels, DataError> {
        match self {
            ColumnarFile::Parquet(file) => file.labels(name),
            ColumnarFile::Arrow(file) => file.labels(name),
        }
    }

    /// The values of a column, whatever numbers they are.
    ///
    /// # Errors
    /// No such column, texts, missing values, damage.
    pub fn numbers(&self, name: &str) -> Result<Column<f32>, DataError> {
        match self {
            ColumnarFile::Parquet(file) => file.numbers(name),
            ColumnarFile::Arrow(file) => file.numbers(name),
        }
    }

    /// One string of bytes per row, of the column or of `inner` in its structure; `None` where all of them together are
    /// more than `most` bytes.
    ///
    /// # Errors
    /// No such column, other values, missing values, damage.
    pub fn bytes(
        &self,
        name: &str,
        inner: &str,
        most: u64,
    ) -> Result<Option<Vec<Vec<u8>>>, DataError> {
        match self {
            ColumnarFile::Parquet(file) => file.bytes(name, inner, most),
            ColumnarFile::Arrow(file) => file.bytes(name, inner, most),
        }
    }
}

/// Returns true for a file whose name ends as those of `save_to_disk` do.
pub(super) fn is_arrow(path: &Path) -> bool {
    has_ending(path, "arrow")
}

/// The first name that was there before.
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
            "Rename one of them, or leave it out",
        )),
    }
}

/// Names that the hub's `datasets` gives to the numbers of a column, in what it writes beside a schema.
pub(super) fn names_of_numbers(note: &str, column: &str) -> Option<Vec<String>> {
    let note: Value = serde_json::from_str(note).ok()?;
    let names = note.get("info")?.get("features")?.get(column)?.get("names")?.as_array()?;
    names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}

/// The error for a column that is not there.
pub(super) fn lacking(path: &Path, name: &str, columns: &[String]) -> DataError {
    let advice = "Name the right one: data.input, data.label, data.client";
    let found = format!("the columns {}", columns.join(", "));
    DataError::advised(path, format!("a column `{name}`"), found, advice)
}

/// The error for values of another type.
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
