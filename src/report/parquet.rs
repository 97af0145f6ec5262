//! Tables as Parquet files, for readers that load single columns with their types: pandas, polars, DuckDB, R.
//!
//! [`encode`] is the writer for every table of the program. The files of a run are made from the finished CSV files
//! and the types in the [dictionary](super::dictionary), so a replay makes the same ones. An empty cell is null.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::column::{CellType, Column};
use super::dictionary::files;
use crate::experiment::{DirectoryError, write_atomically_on};
use crate::files::Disk;

/// Writes `rounds.parquet` next to `rounds.csv`, and so on for every table in a run's folder.
pub fn write_parquet(disk: &Disk, folder: &Path) -> Result<(), DirectoryError> {
    for table in files() {
        let Some(name) = table.name.strip_suffix(".csv") else { continue };
        let path = folder.join(table.name);
        let Ok(file) = File::open(&path) else { continue };
        let rows = rows(file).map_err(|source| DirectoryError::Read { path, source })?;
        let target = folder.join(format!("{name}.parquet"));
        let bytes = encode(&columns(table.columns, &rows)).map_err(|error| {
            DirectoryError::Write { path: target.clone(), source: io::Error::other(error) }
        })?;
        write_atomically_on(disk, &target, &bytes)?;
    }
    Ok(())
}

fn rows(file: File) -> io::Result<Vec<csv::StringRecord>> {
    let rows = csv::Reader::from_reader(file).into_records().collect::<Result<_, _>>();
    rows.map_err(io::Error::other)
}

fn columns<'a>(columns: &'a [Column], rows: &[csv::StringRecord]) -> Vec<(&'a str, Values)> {
    let column = |(at, column): (usize, &'a Column)| {
        let cells = rows.iter().map(|row| row.get(at).unwrap_or_default());
        (column.name, Values::read(cells, column.cells))
    };
    columns.iter().enumerate().map(column).collect()
}

/// Column of values; an unknown value is null.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// `UTF8`.
    Text(Vec<Option<String>>),
    /// `INT64`.
    Int(Vec<Option<i64>>),
    /// `DOUBLE`.
    Float(Vec<Option<f64>>),
}

impl Values {
    /// Reads the cells of a CSV file; a cell that does not have the column's type is null.
    fn read<'a>(cells: impl Iterator<Item = &'a str>, of: CellType) -> Values {
        match of {
            CellType::Text => {
                Values::Text(cells.map(|cell| (!cell.is_empty()).then(|| cell.into())).collect())
            }
            CellType::Int => Values::Int(cells.map(|cell| cell.parse().ok()).collect()),
            CellType::Float => Values::Float(cells.map(|cell| cell.parse().ok()).collect()),
        }
    }

    fn field(&self, name: &str) -> Result<Type, ParquetError> {
        let builder = match self {
            Values::Text(_) => Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_converted_type(ConvertedType::UTF8),
            Values::Int(_) => Type::primitive_type_builder(name, Physical::INT64),
            Values::Float(_) => Type::primitive_type_builder(name, Physical::DOUBLE),
        };
        builder.with_repetition(Repetition::OPTIONAL).build()
    }
}

/// Returns the bytes of a file with these columns, all of one length, as one row group.
///
/// # Errors
/// Fails if the format cannot hold the columns.
pub fn encode(columns: &[(&str, Values)]) -> Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(|(name, values)| values.field(name).map(Arc::new));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("table").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("fedcast".to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, values) in columns {
        let Some(mut out) = group.next_column()? else { break };
        match values {
            Values::Text(texts) => {
                let bytes = texts.iter().map(|text| text.as_deref().map(ByteArray::from));
                let (known, values) = gaps(bytes);
                out.typed::<ByteArrayType>().write_batch(&values, Some(&known), None)?;
            }
            Values::Int(numbers) => {
                let (known, values) = gaps(numbers.iter().copied());
                out.typed::<Int64Type>().write_batch(&values, Some(&known), None)?;
            }
            Values::Float(numbers) => {
                let (known, values) = gaps(numbers.iter().copied());
                out.typed::<DoubleType>().write_batch(&values, Some(&known), None)?;
            }
        }
        out.close()?;
    }
    group.close()?;
    writer.into_inner()
}

/// Returns the definition level of every cell (1 if it has a value, else 0), and the values.
fn gaps<T>(cells: impl Iterator<Item = Option<T>>) -> (Vec<i16>, Vec<T>) {
    let (mut known, mut values) = (Vec::new(), Vec::new());
    for cell in cells {
        known.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    (known, values)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;
    use crate::experiment::names;
    use crate::report::column::{float, int, text};

    #[test]
    fn cells_have_the_type_of_their_column_and_empty_ones_are_null() {
        let columns = [text("phase", ""), int("n", "", ""), float("x", "", "")];
        let rows = [["1", "7", "0.30000000000000004"], ["", "", ""], ["ü", "8", "inf"]];
        let rows: Vec<csv::StringRecord> = rows.map(|row| row[..].into()).into();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        std::fs::write(&path, encode(&super::columns(&columns, &rows)).unwrap()).unwrap();
        let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let read: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].get_string(0).unwrap(), "1");
        assert_eq!(read[0].get_long(1).unwrap(), 7);
        assert_eq!(read[0].get_double(2).unwrap(), 0.1 + 0.2);
        assert!(read[1].get_string(0).is_err() && read[1].get_long(1).is_err());
        assert_eq!(
            (read[2].get_string(0).unwrap().as_str(), read[2].get_long(1).unwrap()),
            ("ü", 8)
        );
        assert_eq!(read[2].get_double(2).unwrap(), f64::INFINITY);
    }

    #[test]
    fn tables_without_rows_are_files_and_tables_that_are_not_there_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let head: Vec<&str> = files()[0].columns.iter().map(|column| column.name).collect();
        std::fs::write(folder.path().join(names::ROUNDS), head.join(",")).unwrap();
        write_parquet(&Disk::default(), folder.path()).unwrap();
        let written = File::open(folder.path().join("rounds.parquet")).unwrap();
        let file = SerializedFileReader::new(written).unwrap();
        assert_eq!(file.metadata().file_metadata().num_rows(), 0);
        assert_eq!(file.metadata().file_metadata().schema_descr().num_columns(), head.len());
        assert!(!folder.path().join("matrix.parquet").exists());
    }
}
