//! Tables as Parquet, for readers that load columns: pandas, polars, DuckDB, R.

use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use super::table::{Cell, ColumnKind, Table};
use crate::results::ResultsError;

/// Bytes of a file.
pub(super) fn write(table: &Table) -> Result<Vec<u8>, ResultsError> {
    encode(table).map_err(|error| ResultsError::Parquet(error.to_string()))
}

fn encode(table: &Table) -> Result<Vec<u8>, ParquetError> {
    let fields = table.columns().iter().map(|(name, kind)| field(name, *kind).map(Arc::new));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("table").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("fedcast".to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (index, (_, kind)) in table.columns().iter().enumerate() {
        let Some(mut column) = group.next_column()? else { break };
        let cells = || table.rows().iter().map(|row| &row[index]);
        let known: Vec<i16> = cells().map(|cell| i16::from(*cell != Cell::Empty)).collect();
        match kind {
            ColumnKind::Text => {
                let texts: Vec<ByteArray> = cells()
                    .filter_map(|cell| match cell {
                        Cell::Text(text) => Some(text.as_str().into()),
                        _ => None,
                    })
                    .collect();
                column.typed::<ByteArrayType>().write_batch(&texts, Some(&known), None)?;
            }
            ColumnKind::Integer => {
                let numbers: Vec<i64> = cells()
                    .filter_map(|cell| match cell {
                        Cell::Integer(number) => Some(*number),
                        _ => None,
                    })
                    .collect();
                column.typed::<Int64Type>().write_batch(&numbers, Some(&known), None)?;
            }
            ColumnKind::Number => {
                let numbers: Vec<f64> = cells()
                    .filter_map(|cell| match cell {
                        Cell::Number(number) => Some(*number),
                        _ => None,
                    })
                    .collect();
                column.typed::<DoubleType>().write_batch(&numbers, Some(&known), None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn field(name: &str, kind: ColumnKind) -> Result<Type, ParquetError> {
    let builder = match kind {
        ColumnKind::Text => Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_converted_type(ConvertedType::UTF8),
        ColumnKind::Integer => Type::primitive_type_builder(name, Physical::INT64),
        ColumnKind::Number => Type::primitive_type_builder(name, Physical::DOUBLE),
    };
    builder.with_repetition(Repetition::OPTIONAL).build()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    #[test]
    fn what_is_written_reads_back_with_types_and_gaps() {
        let mut table = Table::new(vec![
            ("method".into(), ColumnKind::Text),
            ("clients".into(), ColumnKind::Integer),
            ("faa".into(), ColumnKind::Number),
        ]);
        table.push(vec!["hgp ü".into(), Cell::Integer(10), Cell::Number(0.1 + 0.2)]);
        table.push(vec![Cell::Empty, Cell::Integer(-500), Cell::Empty]);
        table.push(vec!["stsa".into(), Cell::Empty, Cell::Number(-1e-300)]);
        let bytes = bytes_of(table.to_parquet().unwrap());
        let file = SerializedFileReader::new(bytes).unwrap();
        let rows: Vec<_> = file.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0].get_string(0).unwrap(), "hgp ü");
        assert_eq!(rows[0].get_long(1).unwrap(), 10);
        assert_eq!(rows[0].get_double(2).unwrap().to_bits(), (0.1f64 + 0.2).to_bits());
        assert_eq!(rows[1].get_long(1).unwrap(), -500);
        assert!(rows[1].get_string(0).is_err() && rows[1].get_double(2).is_err());
        assert_eq!(rows[2].get_string(0).unwrap(), "stsa");
        assert_eq!(rows[2].get_double(2).unwrap(), -1e-300);
        let names = file.metadata().file_metadata().schema_descr();
        assert_eq!(names.column(1).name(), "clients");
    }

    #[test]
    fn a_table_without_rows_is_a_file_as_well() {
        let table = Table::new(vec![("a".into(), ColumnKind::Text)]);
        let file = SerializedFileReader::new(bytes_of(table.to_parquet().unwrap())).unwrap();
        assert_eq!(file.metadata().file_metadata().num_rows(), 0);
    }

    fn bytes_of(bytes: Vec<u8>) -> std::fs::File {
        use std::io::{Seek, Write};
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        file.rewind().unwrap();
        file
    }
}
