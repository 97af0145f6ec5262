//! Files of columns, Parquet or Arrow.

use std::path::Path;

use super::DataError;
use super::arrow_file::ArrowFile;
use super::columns::{ColumnValues, ParquetTable};
use super::labels::Labels;
use super::part_files::has_ending;

/// A file of columns that is open.
pub(super) enum ColumnarFile {
    Parquet(ParquetTable),
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
            false => ParquetTable::open(path).map(ColumnarFile::Parquet),
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

    /// Returns the values of a column of numbers of any type.
    ///
    /// # Errors
    /// No such column, texts, missing values, damage.
    pub fn numbers(&self, name: &str) -> Result<ColumnValues<f32>, DataError> {
        match self {
            ColumnarFile::Parquet(file) => file.numbers(name),
            ColumnarFile::Arrow(file) => file.numbers(name),
        }
    }

    /// Returns one string of bytes per row, of the column or of `inner` in its structure. `None` where all of them
    /// together are more than `most` bytes.
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
