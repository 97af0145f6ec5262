//! Columns of Parquet files: single columns, or several that form one table.
//!
//! A column is read whole, together with the number of values in each row, so that a column of lists is as fast as a
//! plain one. A missing value is an error.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::foreign::foreign;
use super::labels::{LabelReader, Labels, RowPlace};
use super::{Cause, DataError, column_rules};
use crate::files::{self, FileKind};

/// Number of values that are read at once.
const BATCH: usize = 8_192;

/// Open Parquet file.
pub(super) struct ParquetTable {
    path: PathBuf,
    reader: SerializedFileReader<std::fs::File>,
}

/// Values of a column, and the number of values in each row.
pub(super) struct ColumnValues<T> {
    pub values: Vec<T>,
    pub counts: Vec<u32>,
}

impl ParquetTable {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error if the file is missing, cut short or of another format, or if two columns share a name.
    pub fn open(path: &Path) -> Result<ParquetTable, DataError> {
        let file = files::open(path, FileKind::Data)
            .map_err(|e| DataError::io(path, "a Parquet file", e))?;
        let reader = SerializedFileReader::new(file)
            .map_err(|error| foreign(path).unwrap_or_else(|| broken(path, &error)))?;
        let table = ParquetTable { path: path.to_owned(), reader };
        column_rules::differ(path, &table.names())?;
        Ok(table)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the value of a key in the schema's metadata.
    fn note(&self, key: &str) -> Option<&str> {
        let notes = self.reader.metadata().file_metadata().key_value_metadata()?;
        notes.iter().find(|note| note.key == key)?.value.as_deref()
    }

    /// Returns the class names that Hugging Face's `datasets` stores in the metadata for a column.
    fn names_of_numbers(&self, column: &str) -> Option<Vec<String>> {
        column_rules::names_of_numbers(self.note("huggingface")?, column)
    }

    /// Returns the names of the top-level columns, without the fields nested in them.
    pub fn names(&self) -> Vec<String> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        schema.root_schema().get_fields().iter().map(|field| field.name().to_owned()).collect()
    }

    /// Returns the index and description of a column's only leaf, or of the leaf `inner` of a structure.
    fn leaf(
        &self,
        name: &str,
        inner: Option<&str>,
    ) -> Result<(usize, Arc<ColumnDescriptor>), DataError> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let leaves = (0..schema.num_columns()).map(|at| (at, schema.column(at)));
        let of_column: Vec<_> = leaves.filter(|(_, leaf)| leaf.path().parts()[0] == name).collect();
        let chosen = match (of_column.as_slice(), inner) {
            ([_], _) => of_column.first(),
            (_, Some(inner)) => of_column
                .iter()
                .find(|(_, leaf)| leaf.path().parts().last().is_some_and(|l| l == inner)),
            _ => None,
        };
        let chosen = chosen.cloned().ok_or_else(|| match of_column.is_empty() {
            true => column_rules::lacking(&self.path, name, &self.names()),
            false => DataError::corrupt(
                &self.path,
                format!("values in the column `{name}`"),
                "a structure of several columns",
            ),
        })?;
        match meaning(&chosen.1) {
            None => Ok(chosen),
            Some(meaning) => Err(self.unlike(name, "plain numbers, texts or bytes", meaning)),
        }
    }

    /// Returns the values of a column of numbers of any type.
    ///
    /// # Errors
    /// Returns an error if the column does not exist, is not numeric, has missing values or is damaged.
    pub fn numbers(&self, name: &str) -> Result<ColumnValues<f32>, DataError> {
        let (at, leaf) = self.leaf(name, None)?;
        match leaf.physical_type() {
            Physical::FLOAT => self.float(at, name),
            Physical::DOUBLE => self.double(at, name).map(|c| c.map(|v| v as f32)),
            Physical::INT32 if is_unsigned(&leaf) => {
                self.int32(at, name).map(|c| c.map(|v| v as u32 as f32))
            }
            Physical::INT32 => self.int32(at, name).map(|c| c.map(|v| v as f32)),
            Physical::INT64 if is_unsigned(&leaf) => {
                self.int64(at, name).map(|c| c.map(|v| v as u64 as f32))
            }
            Physical::INT64 => self.int64(at, name).map(|c| c.map(|v| v as f32)),
            other => Err(self.unlike(name, "numbers", other)),
        }
    }

    /// Returns one label or owner per row, with the class names that the file gives to its numbers.
    ///
    /// # Errors
    /// Returns an error if the column does not exist, holds neither numbers nor texts, has missing values or is
    /// damaged.
    pub fn labels(&self, name: &str) -> Result<Labels, DataError> {
        let (at, leaf) = self.leaf(name, None)?;
        if leaf.max_rep_level() > 0 {
            return Err(DataError::because(
                Cause::OtherContent,
                &self.path,
                format!("one label a row in `{name}`"),
                "lists",
            ));
        }
        let mut reader = LabelReader::new(&self.path, name);
        match leaf.physical_type() {
            Physical::BOOLEAN => {
                let truths = self.booleans(at, name)?.values;
                truths.into_iter().for_each(|truth| reader.push_truth(truth));
            }
            Physical::INT32 => {
                let unsigned = is_unsigned(&leaf);
                for value in self.int32(at, name)?.values {
                    let value = if unsigned { i64::from(value as u32) } else { i64::from(value) };
                    reader.push_whole(value);
                }
            }
            Physical::INT64 => {
                let unsigned = is_unsigned(&leaf);
                for value in self.int64(at, name)?.values {
                    match unsigned {
                        true => reader.push_unsigned(value as u64),
                        false => reader.push_whole(value),
                    }
                }
            }
            Physical::FLOAT => {
                for (row, value) in self.float(at, name)?.values.into_iter().enumerate() {
                    reader.push_float(f64::from(value), || RowPlace::Row(row))?;
                }
            }
            Physical::DOUBLE => {
                for (row, value) in self.double(at, name)?.values.into_iter().enumerate() {
                    reader.push_float(value, || RowPlace::Row(row))?;
                }
            }
            Physical::BYTE_ARRAY => {
                for (row, value) in self.byte_arrays(at, name)?.values.iter().enumerate() {
                    let text = column_rules::text(&self.path, name, row, value.data())?;
                    reader.push_text(text, || RowPlace::Row(row))?;
                }
            }
            other => return Err(self.unlike(name, "whole numbers or texts", other)),
        }
        Ok(reader.finish().with_names(self.names_of_numbers(name)))
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
        let (at, leaf) = self.leaf(name, Some(inner))?;
        match leaf.physical_type() {
            Physical::BYTE_ARRAY => {
                let found = self.byte_arrays(at, name)?;
                // Counted before they are copied: a dictionary may repeat one value in many rows.
                let all: u64 = found.values.iter().map(|value| value.len() as u64).sum();
                Ok((all <= most).then(|| copied(found).values))
            }
            other => Err(self.unlike(name, "bytes", other)),
        }
    }

    fn unlike(&self, name: &str, expected: &str, found: impl fmt::Display) -> DataError {
        column_rules::unlike(&self.path, name, expected, found)
    }

    fn float(&self, at: usize, name: &str) -> Result<ColumnValues<f32>, DataError> {
        self.read(at, name, |reader| match reader {
            ColumnReader::FloatColumnReader(reader) => Some(reader),
            _ => None,
        })
    }

    fn double(&self, at: usize, name: &str) -> Result<ColumnValues<f64>, DataError> {
        self.read(at, name, |reader| match reader {
            ColumnReader::DoubleColumnReader(reader) => Some(reader),
            _ => None,
        })
    }

    fn booleans(&self, at: usize, name: &str) -> Result<ColumnValues<bool>, DataError> {
        self.read(at, name, |reader| match reader {
            ColumnReader::BoolColumnReader(reader) => Some(reader),
            _ => None,
        })
    }

    fn int32(&self, at: usize, name: &str) -> Result<ColumnValues<i32>, DataError> {
        self.read(at, name, |reader| match reader {
            ColumnReader::Int32ColumnReader(reader) => Some(reader),
            _ => None,
        })
    }

    fn int64(&self, at: usize, name: &str) -> Result<ColumnValues<i64>, DataError> {
        self.read(at, name, |reader| match reader {
            ColumnReader::Int64ColumnReader(reader) => Some(reader),
            _ => None,
        })
    }

    fn byte_arrays(&self, at: usize, name: &str) -> Result<ColumnValues<ByteArray>, DataError> {
        self.read(at, name, |reader| match reader {
            ColumnReader::ByteArrayColumnReader(reader) => Some(reader),
            _ => None,
        })
    }

    fn read<D: DataType>(
        &self,
        at: usize,
        name: &str,
        typed: impl Fn(ColumnReader) -> Option<ColumnReaderImpl<D>>,
    ) -> Result<ColumnValues<D::T>, DataError> {
        let failed = |error: ParquetError| broken(&self.path, &error);
        let leaf = self.reader.metadata().file_metadata().schema_descr().column(at);
        let (whole, lists) = (leaf.max_def_level(), leaf.max_rep_level() > 0);
        let mut column = ColumnValues { values: Vec::new(), counts: Vec::new() };
        for group in 0..self.reader.num_row_groups() {
            let group = self.reader.get_row_group(group).map_err(failed)?;
            let reader = group.get_column_reader(at).map_err(failed)?;
            let Some(mut reader) = typed(reader) else {
                return Err(self.unlike(name, "values of one type", leaf.physical_type()));
            };
            loop {
                let (mut given, mut begins) = (Vec::new(), Vec::new());
                let before = column.values.len();
                let (rows, ..) = reader
                    .read_records(BATCH, Some(&mut given), Some(&mut begins), &mut column.values)
                    .map_err(failed)?;
                if rows == 0 {
                    break;
                }
                if whole > 0 && given.iter().any(|level| *level < whole) {
                    let missing = given.iter().position(|level| *level < whole).unwrap_or(0);
                    let row = match lists {
                        true => begins[..=missing]
                            .iter()
                            .filter(|level| **level == 0)
                            .count()
                            .saturating_sub(1),
                        false => missing,
                    };
                    let row = RowPlace::Row(column.counts.len() + row);
                    return Err(LabelReader::new(&self.path, name).missing("", &row));
                }
                match lists {
                    true => {
                        begins.iter().for_each(|level| match (level, column.counts.last_mut()) {
                            (1.., Some(last)) => *last += 1,
                            _ => column.counts.push(1),
                        })
                    }
                    false => {
                        column.counts.extend(std::iter::repeat_n(1, column.values.len() - before))
                    }
                }
            }
        }
        Ok(column)
    }
}

impl<T> ColumnValues<T> {
    fn map<U>(self, each: impl FnMut(T) -> U) -> ColumnValues<U> {
        ColumnValues { values: self.values.into_iter().map(each).collect(), counts: self.counts }
    }
}

/// Copies the bytes of all values: the originals would keep the whole pages that they were read from in memory.
fn copied(column: ColumnValues<ByteArray>) -> ColumnValues<Vec<u8>> {
    column.map(|value| value.data().to_vec())
}

fn is_unsigned(leaf: &ColumnDescriptor) -> bool {
    matches!(leaf.converted_type(), ConvertedType::UINT_32 | ConvertedType::UINT_64)
        || matches!(leaf.logical_type_ref(), Some(LogicalType::Integer(kind)) if !kind.is_signed)
}

/// Returns the logical type of a column whose numbers stand for something else: dates, times or decimals.
fn meaning(leaf: &ColumnDescriptor) -> Option<String> {
    use ConvertedType as C;
    let plain = [
        C::NONE,
        C::UTF8,
        C::INT_8,
        C::INT_16,
        C::INT_32,
        C::INT_64,
        C::UINT_8,
        C::UINT_16,
        C::UINT_32,
        C::UINT_64,
        C::LIST,
        C::ENUM,
        C::JSON,
        C::BSON,
    ];
    if !plain.contains(&leaf.converted_type()) {
        return Some(leaf.converted_type().to_string());
    }
    // Types in nanoseconds have a logical type only, no converted type.
    match leaf.logical_type_ref() {
        Some(LogicalType::Timestamp(_)) => Some("TIMESTAMP".to_owned()),
        Some(LogicalType::Time(_)) => Some("TIME".to_owned()),
        Some(LogicalType::Date) => Some("DATE".to_owned()),
        Some(LogicalType::Decimal(_)) => Some("DECIMAL".to_owned()),
        _ => None,
    }
}

fn broken(path: &Path, error: &ParquetError) -> DataError {
    let found = error.to_string();
    let advice = match found.contains("Disabled feature") {
        true => {
            "Write it again: pandas' to_parquet(compression=\"snappy\") or polars' write_parquet(compression=\"snappy\")"
        }
        false => "Fetch or write it again",
    };
    let expected = "a whole Parquet file, plain or packed with snappy, gzip or zstd";
    DataError::advised(path, expected, found, advice)
}

#[cfg(test)]
mod tests {
    use parquet::basic::{Repetition, TimeUnit};
    use parquet::data_type::{Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::Type;

    use super::*;

    /// Labels, and numbers, of a column `v` of values that stand for something.
    fn read<D: DataType>(
        values: &[D::T],
        stands_for: LogicalType,
    ) -> (Result<Labels, String>, Result<Vec<f32>, String>) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("t.parquet");
        let leaf = Type::primitive_type_builder("v", D::get_physical_type())
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(stands_for))
            .with_precision(5)
            .with_scale(2);
        let fields = vec![Arc::new(leaf.build().unwrap())];
        let schema = Type::group_type_builder("schema").with_fields(fields).build().unwrap();
        let properties = WriterProperties::builder().build();
        let file = std::fs::File::create(&path).unwrap();
        let mut file = SerializedFileWriter::new(file, schema.into(), properties.into()).unwrap();
        let mut group = file.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<D>().write_batch(values, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        file.close().unwrap();
        let table = ParquetTable::open(&path).unwrap();
        let text = |error: DataError| error.to_string();
        (table.labels("v").map_err(text), table.numbers("v").map(|c| c.values).map_err(text))
    }

    #[test]
    fn numbers_that_stand_for_something_else_are_refused() {
        let nanoseconds = LogicalType::timestamp(true, TimeUnit::NANOS);
        let milliseconds = LogicalType::timestamp(true, TimeUnit::MILLIS);
        let read = [
            (read::<Int32Type>(&[123], LogicalType::Date), "DATE"),
            (read::<Int32Type>(&[123], LogicalType::decimal(2, 5)), "DECIMAL"),
            (read::<Int64Type>(&[123], nanoseconds), "TIMESTAMP"),
            (read::<Int64Type>(&[123], milliseconds), "TIMESTAMP"),
        ];
        for ((labels, numbers), word) in read {
            for error in [labels.unwrap_err(), numbers.unwrap_err()] {
                assert!(error.contains(&format!("values of type {word}")), "{error}");
            }
        }
    }

    #[test]
    fn numbers_without_a_sign_have_none() {
        let (labels, numbers) = read::<Int32Type>(&[7, -1], LogicalType::integer(32, false));
        assert_eq!(labels, Ok(Labels::of_numbers([7, i64::from(u32::MAX)])));
        assert_eq!(numbers, Ok(vec![7.0, u32::MAX as f32]));
        let (labels, numbers) = read::<Int64Type>(&[7, -1], LogicalType::integer(64, false));
        assert_eq!(labels.unwrap().texts(), ["7", "18446744073709551615"]);
        assert_eq!(numbers, Ok(vec![7.0, u64::MAX as f32]));
        let (labels, _) = read::<Int32Type>(&[7, -1], LogicalType::integer(8, true));
        assert_eq!(labels, Ok(Labels::of_numbers([7, -1])));
    }
}
