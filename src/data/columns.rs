//! Columns of Parquet files: of one, or of several that are one table.
//!
//! Whole columns are read, with the values of a row counted, so that a column of lists is as quick as a plain one.
//! A missing value is an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{ConvertedType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::DataError;
use super::labels::Labels;
use crate::files::{self, Kind};

/// Values read at once.
const BATCH: usize = 8_192;

/// A Parquet file that is open.
pub(super) struct Table {
    path: PathBuf,
    reader: SerializedFileReader<std::fs::File>,
}

/// The values of a column, and how many each row has.
pub(super) struct Column<T> {
    pub values: Vec<T>,
    pub counts: Vec<u32>,
}

impl Table {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that is missing, cut short or of another format.
    pub fn open(path: &Path) -> Result<Table, DataError> {
        let file =
            files::open(path, Kind::Data).map_err(|e| DataError::io(path, "a Parquet file", e))?;
        let reader = SerializedFileReader::new(file).map_err(|error| broken(path, &error))?;
        Ok(Table { path: path.to_owned(), reader })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Rows of the file.
    pub fn rows(&self) -> usize {
        usize::try_from(self.reader.metadata().file_metadata().num_rows()).unwrap_or_default()
    }

    /// The value of a key beside the schema.
    pub fn note(&self, key: &str) -> Option<&str> {
        let notes = self.reader.metadata().file_metadata().key_value_metadata()?;
        notes.iter().find(|note| note.key == key)?.value.as_deref()
    }

    /// Columns as they were named, without what lies inside of them.
    pub fn names(&self) -> Vec<String> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        schema.root_schema().get_fields().iter().map(|field| field.name().to_owned()).collect()
    }

    /// The number and description of the only leaf of a column, or of the one named `inner` of a structure.
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
        chosen.cloned().ok_or_else(|| match of_column.is_empty() {
            true => DataError::Corrupt {
                path: self.path.clone(),
                expected: format!("a column `{name}`"),
                found: format!("the columns {}", self.names().join(", ")),
                advice: "Name the right one: data.input, data.label, data.client".to_owned(),
            },
            false => DataError::corrupt(
                &self.path,
                format!("values in the column `{name}`"),
                "a structure of several columns",
            ),
        })
    }

    /// The values of a column, whatever numbers they are.
    ///
    /// # Errors
    /// No such column, texts, missing values, damage.
    pub fn numbers(&self, name: &str) -> Result<Column<f32>, DataError> {
        let (at, leaf) = self.leaf(name, None)?;
        match leaf.physical_type() {
            Physical::FLOAT => self.float(at, name),
            Physical::DOUBLE => self.double(at, name),
            Physical::INT32 => self.int32(at, name).map(|c| c.map(|v| v as f32)),
            Physical::INT64 => self.int64(at, name).map(|c| c.map(|v| v as f32)),
            other => Err(self.unlike(name, "numbers", other)),
        }
    }

    /// One label per row.
    ///
    /// # Errors
    /// No such column, neither whole numbers nor texts, missing values, damage.
    pub fn labels(&self, name: &str) -> Result<Labels, DataError> {
        let (at, leaf) = self.leaf(name, None)?;
        if leaf.max_rep_level() > 0 {
            return Err(DataError::corrupt(
                &self.path,
                format!("one label a row in `{name}`"),
                "lists",
            ));
        }
        match leaf.physical_type() {
            Physical::INT32 => {
                self.int32(at, name).map(|c| Labels::Numbers(c.map(i64::from).values))
            }
            Physical::INT64 => self.int64(at, name).map(|c| Labels::Numbers(c.values)),
            Physical::BYTE_ARRAY if leaf.converted_type() != ConvertedType::DECIMAL => {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                self.bytes_at(at, name).map(|c| Labels::Words(c.map(text).values))
            }
            other => Err(self.unlike(name, "whole numbers or texts", other)),
        }
    }

    /// One string of bytes per row, of the column or of `inner` in its structure.
    ///
    /// # Errors
    /// No such column, other values, missing values, damage.
    pub fn bytes(&self, name: &str, inner: &str) -> Result<Vec<Vec<u8>>, DataError> {
        let (at, leaf) = self.leaf(name, Some(inner))?;
        match leaf.physical_type() {
            Physical::BYTE_ARRAY => Ok(self.bytes_at(at, name)?.values),
            other => Err(self.unlike(name, "bytes", other)),
        }
    }

    fn unlike(&self, name: &str, expected: &str, found: Physical) -> DataError {
        let expected = format!("{expected} in the column `{name}`");
        DataError::Corrupt {
            path: self.path.clone(),
            expected,
            found: format!("values of type {found}"),
            advice: "Name another column: data.input, data.label, data.client".to_owned(),
        }
    }

    fn float(&self, at: usize, name: &str) -> Result<Column<f32>, DataError> {
        self.read(at, name, |reader| match reader {
            ColumnReader::FloatColumnReader(reader) => Some(reader),
            _ => None,
        })
    }

    fn double(&self, at: usize, name: &str) -> Result<Column<f32>, DataError> {
        let column = self.read(at, name, |reader| match reader {
            ColumnReader::DoubleColumnReader(reader) => Some(reader),
            _ => None,
        });
        column.map(|column| column.map(|value| value as f32))
    }

    fn int32(&self, at: usize, name: &str) -> Result<Column<i32>, DataError> {
        self.read(at, name, |reader| match reader {
            ColumnReader::Int32ColumnReader(reader) => Some(reader),
            _ => None,
        })
    }

    fn int64(&self, at: usize, name: &str) -> Result<Column<i64>, DataError> {
        self.read(at, name, |reader| match reader {
            ColumnReader::Int64ColumnReader(reader) => Some(reader),
            _ => None,
        })
    }

    fn bytes_at(&self, at: usize, name: &str) -> Result<Column<Vec<u8>>, DataError> {
        let column = self.read(at, name, |reader| match reader {
            ColumnReader::ByteArrayColumnReader(reader) => Some(reader),
            _ => None,
        });
        // A copy each: a value would keep the whole page that it was read from.
        column.map(|column| column.map(|value| value.data().to_vec()))
    }

    fn read<D: DataType>(
        &self,
        at: usize,
        name: &str,
        typed: impl Fn(ColumnReader) -> Option<ColumnReaderImpl<D>>,
    ) -> Result<Column<D::T>, DataError> {
        let failed = |error: ParquetError| broken(&self.path, &error);
        let leaf = self.reader.metadata().file_metadata().schema_descr().column(at);
        let (whole, lists) = (leaf.max_def_level(), leaf.max_rep_level() > 0);
        let mut column = Column { values: Vec::new(), counts: Vec::new() };
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
                        true => begins[..=missing].iter().filter(|level| **level == 0).count() - 1,
                        false => missing,
                    };
                    return Err(DataError::corrupt(
                        &self.path,
                        format!("a value of `{name}` in every row"),
                        format!("none in row {}", column.counts.len() + row),
                    ));
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

impl<T> Column<T> {
    fn map<U>(self, each: impl FnMut(T) -> U) -> Column<U> {
        Column { values: self.values.into_iter().map(each).collect(), counts: self.counts }
    }
}

fn broken(path: &Path, error: &ParquetError) -> DataError {
    let found = error.to_string();
    let packed = found.contains("Disabled feature");
    DataError::Corrupt {
        path: path.to_owned(),
        expected: "a whole Parquet file, plain or packed with snappy or gzip".to_owned(),
        found,
        advice: match packed {
            true => "Write it again: pandas' to_parquet(compression=\"snappy\") or polars' write_parquet(compression=\"snappy\")",
            false => "Fetch or write it again",
        }
        .to_owned(),
    }
}

/// The Parquet files of a part, sorted: those whose name, or whose folder's name, begins with one of `words`.
///
/// # Errors
/// A folder that cannot be read.
pub(super) fn files_of(folder: &Path, words: &[&str]) -> Result<Vec<PathBuf>, DataError> {
    let begins = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        words.iter().any(|word| name.starts_with(word))
    };
    let is_table = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "parquet");
    let mut found = Vec::new();
    for place in [folder.to_owned(), folder.join("data"), folder.join("default")] {
        if !place.is_dir() {
            continue;
        }
        for path in entries(&place)?.into_iter().filter(|path| begins(path)) {
            match path.is_dir() {
                true => found.extend(entries(&path)?.into_iter().filter(is_table)),
                false if is_table(&path) => found.push(path),
                false => {}
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let failed = |e| DataError::io(folder, "a folder of Parquet files", e);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}
