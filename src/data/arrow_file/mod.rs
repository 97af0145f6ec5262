//! Columns of an Arrow file in the streaming format, as Hugging Face's `save_to_disk` writes it.
//!
//! The values equal those of a Parquet file with the same columns: class names are taken from the schema's metadata,
//! and a missing value is an error. Numeric columns are read when a file is opened; columns of texts, bytes and lists
//! are read on request, and only what is returned stays in memory.

mod cells;
mod stream;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, SchemaRef};
use cells::{ArrowCell, Lists, cells, lists};
use stream::read_columns;

use super::columns::ColumnValues;
use super::labels::{LabelReader, Labels, RowPlace};
use super::{Cause, DataError, column_rules};

/// An Arrow file whose columns of numbers have been read.
pub(super) struct ArrowFile {
    path: PathBuf,
    schema: SchemaRef,
    /// Chunks of the numeric columns, keyed by the column's index in the schema.
    plain: BTreeMap<usize, Vec<ArrayRef>>,
}

/// Reason why an array cannot be read as the requested values.
enum Misfit {
    /// Missing value in this row.
    Missing(usize),
    OtherType,
}

impl ArrowFile {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error if the file is missing, cut short or of another format, or if two columns share a name.
    pub fn open(path: &Path) -> Result<ArrowFile, DataError> {
        let schema = stream::schema(path)?;
        let mut file = ArrowFile { path: path.to_owned(), schema, plain: BTreeMap::new() };
        column_rules::differ(path, &file.names())?;
        let places = 0..file.schema.fields().len();
        let places: Vec<usize> = places.filter(|at| is_plain(file.schema.field(*at))).collect();
        file.plain = places.iter().map(|at| (*at, Vec::new())).collect();
        read_columns(path, &places, |pieces| {
            file.plain.values_mut().zip(pieces).for_each(|(of, piece)| of.push(piece.clone()));
            Ok(())
        })?;
        Ok(file)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names of the top-level columns, without the fields nested in them.
    pub fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns the values of a column of numbers of any type.
    ///
    /// # Errors
    /// Returns an error if the column does not exist, is not numeric, has missing values or is damaged.
    pub fn numbers(&self, name: &str) -> Result<ColumnValues<f32>, DataError> {
        let mut column = ColumnValues { values: Vec::new(), counts: Vec::new() };
        self.read(name, |piece, first| {
            let of_piece = numbers_of(piece).map_err(|misfit| match misfit {
                Misfit::Missing(row) => self.missing(name, first + row),
                Misfit::OtherType => self.unlike(name, "numbers"),
            })?;
            column.values.extend(of_piece.values);
            column.counts.extend(of_piece.counts);
            Ok(())
        })?;
        Ok(column)
    }

    /// Returns one label or owner per row, with the class names that the file gives to its numbers.
    ///
    /// # Errors
    /// Returns an error if the column does not exist, holds neither numbers nor texts, has missing values or is
    /// damaged.
    pub fn labels(&self, name: &str) -> Result<Labels, DataError> {
        let mut reader = LabelReader::new(&self.path, name);
        self.read(name, |piece, first| {
            if lists(piece).is_some() {
                let expected = format!("one label a row in `{name}`");
                return Err(DataError::because(Cause::OtherContent, &self.path, expected, "lists"));
            }
            let cells = cells(piece).ok_or_else(|| self.unlike(name, "whole numbers or texts"))?;
            for (row, cell) in (first..).zip(cells) {
                let place = || RowPlace::Row(row);
                match cell {
                    ArrowCell::Missing => return Err(self.missing(name, row)),
                    ArrowCell::Whole(value) => reader.push_whole(value),
                    ArrowCell::Unsigned(value) => reader.push_unsigned(value),
                    ArrowCell::Float(value) => reader.push_float(value, place)?,
                    ArrowCell::Truth(value) => reader.push_truth(value),
                    ArrowCell::Bytes(bytes) => {
                        reader
                            .push_text(column_rules::text(&self.path, name, row, bytes)?, place)?;
                    }
                }
            }
            Ok(())
        })?;
        let note = self.schema.metadata().get("huggingface");
        Ok(reader.finish().with_names(note.and_then(|n| column_rules::names_of_numbers(n, name))))
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
        let (mut rows, mut left) = (Vec::new(), Some(most));
        self.read(name, |piece, first| {
            let unlike = || self.unlike(name, "bytes");
            let of_rows = match piece.as_struct_opt() {
                Some(structure) => structure.column_by_name(inner).ok_or_else(unlike)?.as_ref(),
                None => piece,
            };
            for (at, cell) in cells(of_rows).ok_or_else(unlike)?.enumerate() {
                match cell {
                    ArrowCell::Bytes(_) | ArrowCell::Missing if piece.is_null(at) => {
                        return Err(self.missing(name, first + at));
                    }
                    ArrowCell::Missing => return Err(self.without_bytes(name, piece, (first, at))),
                    ArrowCell::Bytes(bytes) => {
                        left = left.and_then(|left| left.checked_sub(bytes.len() as u64));
                        // Beyond the limit the rest is only checked, not copied.
                        if left.is_some() {
                            rows.push(bytes.to_vec());
                        }
                    }
                    _ => return Err(unlike()),
                }
            }
            Ok(())
        })?;
        Ok(left.map(|_| rows))
    }

    /// Calls `each` with every chunk of a column and the number of the chunk's first row.
    fn read(
        &self,
        name: &str,
        mut each: impl FnMut(&dyn Array, usize) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let at = self.schema.index_of(name);
        let at = at.map_err(|_| column_rules::lacking(&self.path, name, &self.names()))?;
        let mut first = 0;
        let mut next = |piece: &ArrayRef| {
            each(piece.as_ref(), first)?;
            first += piece.len();
            Ok(())
        };
        match self.plain.get(&at) {
            Some(pieces) => pieces.iter().try_for_each(next),
            None => read_columns(&self.path, &[at], |pieces| pieces.iter().try_for_each(&mut next)),
        }
    }

    fn missing(&self, name: &str, row: usize) -> DataError {
        LabelReader::new(&self.path, name).missing("", &RowPlace::Row(row))
    }

    /// Returns the error for a structure without bytes in row `at` of a piece that begins with row `first`.
    fn without_bytes(
        &self,
        name: &str,
        piece: &dyn Array,
        (first, at): (usize, usize),
    ) -> DataError {
        let paths = piece.as_struct_opt().and_then(|structure| structure.column_by_name("path"));
        match paths.and_then(|paths| cells(paths.as_ref())?.nth(at)) {
            Some(ArrowCell::Bytes(path)) => DataError::advised(
                &self.path,
                format!("the bytes of an image in every row of `{name}`"),
                format!("only its path `{}` in row {}", String::from_utf8_lossy(path), first + at),
                "Save it where the images are: save_to_disk puts those that it finds into its files",
            ),
            _ => self.missing(name, first + at),
        }
    }

    fn unlike(&self, name: &str, expected: &str) -> DataError {
        let Ok(field) = self.schema.field_with_name(name) else {
            return column_rules::lacking(&self.path, name, &self.names());
        };
        match field.data_type() {
            DataType::Dictionary(..) => DataError::advised(
                &self.path,
                format!("{expected} in the column `{name}`"),
                "numbers into a dictionary (categories of pandas)",
                "Write the column as plain texts before it is saved: df[column] = df[column].astype(str)",
            ),
            found => column_rules::unlike(&self.path, name, expected, found),
        }
    }
}

/// Returns true for a column of numbers, which is small compared with one of texts, bytes or lists.
fn is_plain(field: &Field) -> bool {
    field.data_type().is_numeric() || *field.data_type() == DataType::Boolean
}

/// Returns the numbers of every row of an array; nested lists are flattened.
fn numbers_of(array: &dyn Array) -> Result<ColumnValues<f32>, Misfit> {
    if let Some(Lists { values, counts }) = lists(array) {
        if let Some(row) = (0..array.len()).find(|row| array.is_null(*row)) {
            return Err(Misfit::Missing(row));
        }
        let inner = numbers_of(values.as_ref()).map_err(|misfit| match misfit {
            Misfit::Missing(place) => Misfit::Missing(row_with(place, &counts)),
            Misfit::OtherType => Misfit::OtherType,
        })?;
        let mut rest = inner.counts.iter();
        let count = |count: usize| rest.by_ref().take(count).sum();
        return Ok(ColumnValues {
            values: inner.values,
            counts: counts.into_iter().map(count).collect(),
        });
    }
    let number = |(row, cell)| match cell {
        ArrowCell::Missing => Err(Misfit::Missing(row)),
        ArrowCell::Whole(value) => Ok(value as f32),
        ArrowCell::Unsigned(value) => Ok(value as f32),
        ArrowCell::Float(value) => Ok(value as f32),
        ArrowCell::Truth(_) | ArrowCell::Bytes(_) => Err(Misfit::OtherType),
    };
    let cells = cells(array).ok_or(Misfit::OtherType)?;
    let values = cells.enumerate().map(number).collect::<Result<Vec<f32>, Misfit>>()?;
    Ok(ColumnValues { counts: vec![1; values.len()], values })
}

/// Returns the index of the list that holds the value at `place` of the concatenated lists.
fn row_with(place: usize, counts: &[usize]) -> usize {
    let mut end = 0;
    let has = |count: &usize| {
        end += count;
        place < end
    };
    counts.iter().position(has).unwrap_or(0)
}
