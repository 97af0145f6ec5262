//! Columnar files: Parquet or Arrow.

use std::path::Path;

use super::DataError;
use super::arrow_file::ArrowFile;
use super::columns::{ColumnValues, ParquetTable};
use super::labels::Labels;
use super::part_files::has_ending;

/// Open Parquet or Arrow file.
pub(super) enum ColumnarFile {
    Parquet(ParquetTable),
    Arrow(ArrowFile),
}

impl ColumnarFile {
    /// Opens a file as Arrow if its name ends in `.arrow`, as Parquet otherwise.
    ///
    /// # Errors
    /// Returns an error if the file is missing, cut short or of another format, or if two columns share a name.
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

    /// Returns the names of the top-level columns, without the fields nested in them.
    pub fn names(&self) -> Vec<String> {
        match self {
            ColumnarFile::Parquet(file) => file.names(),
            ColumnarFile::Arrow(file) => file.names(),
        }
    }

    /// Returns one label or owner per row, with the class names that the file gives to its numbers.
    ///
    /// # Errors
    /// Returns an error if the column does not exist, holds neither numbers nor texts, has missing values or is
    /// damaged.
    pub fn labels(&self, name: &str) -> Result<Labels, DataError> {
        match self {
            ColumnarFile::Parquet(file) => file.labels(name),
            ColumnarFile::Arrow(file) => file.labels(name),
        }
    }

    /// Returns the values of a column of numbers of any type.
    ///
    /// # Errors
    /// Returns an error if the column does not exist, is not numeric, has missing values or is damaged.
    pub fn numbers(&self, name: &str) -> Result<ColumnValues<f32>, DataError> {
        match self {
            ColumnarFile::Parquet(file) => file.numbers(name),
            ColumnarFile::Arrow(file) => file.numbers(name),
        }
    }

    /// Returns one byte string per row, from the column or from its field `inner` if it is a structure. `None` if all
    /// of them together exceed `most` bytes.
    ///
    /// # Errors
    /// Returns an error if the column does not exist, holds other values, has missing values or is damaged.
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
