//! Tables as Parquet, beside their CSV files, for readers that load single columns with their types: pandas, polars,
//! DuckDB, R.
//!
//! They are made from the finished CSV files and the types in the [dictionary](super::dictionary), so a replay makes the
//! same ones. An empty cell is null.

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
use crate::experiment::{DirectoryError, write_atomically};

/// Writes `rounds.parquet` beside `rounds.csv`, and so on for every table that a run's folder has.
pub fn write_parquet(folder: &Path) -> Result<(), DirectoryError> {
    for table in files() {
        let Some(name) = table.name.strip_suffix(".csv") else { continue };
        let path = folder.join(table.name);
        let Ok(file) = File::open(&path) else { continue };
        let rows = rows(file).map_err(|source| DirectoryError::Read { path, source })?;
        let target = folder.join(format!("{name}.parquet"));
        let bytes = encode(table.columns, &rows).map_err(|error| DirectoryError::Write {
            path: target.clone(),
            source: io::Error::other(error),
        })?;
        write_atomically(&target, &bytes)?;
    }
    Ok(())
}

fn rows(file: File) -> io::Result<Vec<csv::StringRecord>> {
    let rows = csv::Reader::from_reader(file).into_records().collect::<Result<_, _>>();
    rows.map_err(io::Error::other)
}

/// A file with these columns; a cell that is not of its column's type is null.
fn encode(columns: &[Column], rows: &[csv::StringRecord]) -> Result<Vec<u8>, ParquetError> {
    let fields = columns.iter().map(|column| field(column).map(Arc::new));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("table").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("fedcast".to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (place, column) in columns.iter().enumerate() {
        let Some(mut out) = group.next_column()? else { break };
        let cells = || rows.iter().map(|row| row.get(place).unwrap_or_default());
        match column.cells {
            CellType::Text => {
                let text = |cell: &str| (!cell.is_empty()).then(|| ByteArray::from(cell));
                let (known, values) = gaps(cells().map(text));
                out.typed::<ByteArrayType>().write_batch(&values, Some(&known), None)?;
            }
            CellType::Int => {
                let (known, values) = gaps(cells().map(|cell| cell.parse::<i64>().ok()));
                out.typed::<Int64Type>().write_batch(&values, Some(&known), None)?;
            }
            CellType::Float => {
                let (known, values) = gaps(cells().map(|cell| cell.parse::<f64>().ok()));
                out.typed::<DoubleType>().write_batch(&values, Some(&known), None)?;
            }
        }
        out.close()?;
    }
    group.close()?;
    writer.into_inner()
}

/// For every cell whether there is a value (1), and the values.
fn gaps<T>(cells: impl Iterator<Item = Option<T>>) -> (Vec<i16>, Vec<T>) {
    let (mut known, mut values) = (Vec::new(), Vec::new());
    for cell in cells {
        known.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    (known, values)
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let builder = match column.cells {
        CellType::Text => Type::primitive_type_builder(column.name, Physical::BYTE_ARRAY)
            .with_converted_type(ConvertedType::UTF8),
        CellType::Int => Type::primitive_type_builder(column.name, Physical::INT64),
        CellType::Float => Type::primitive_type_builder(column.name, Physical::DOUBLE),
    };
    builder.with_repetition(Repetition::OPTIONAL).build()
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
        std::fs::write(&path, encode(&columns, &rows).unwrap()).unwrap();
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
        write_parquet(folder.path()).unwrap();
        let written = File::open(folder.path().join("rounds.parquet")).unwrap();
        let file = SerializedFileReader::new(written).unwrap();
        assert_eq!(file.metadata().file_metadata().num_rows(), 0);
        assert_eq!(file.metadata().file_metadata().schema_descr().num_columns(), head.len());
        assert!(!folder.path().join("matrix.parquet").exists());
    }
}
