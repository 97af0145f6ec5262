//! Tables of typed columns, written as CSV and as Parquet.

use crate::report::column::CellType;
use crate::report::csv::number as csv_number;
use crate::report::parquet::{Values, encode};
use crate::results::ResultsError;

/// Entry of a table; an unknown one is [`TableCell::Empty`].
#[derive(Clone, Debug, PartialEq)]
pub enum TableCell {
    /// No value.
    Empty,
    /// Text.
    Text(String),
    /// Whole number.
    Integer(i64),
    /// Floating-point number.
    Number(f64),
}

impl From<Option<f64>> for TableCell {
    fn from(number: Option<f64>) -> TableCell {
        number.map_or(TableCell::Empty, TableCell::Number)
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> TableCell {
        TableCell::Text(text.to_owned())
    }
}

impl TableCell {
    /// Converts the entry to the type of a column; `Empty` if it is of another type.
    pub(super) fn as_kind(&self, kind: CellType) -> TableCell {
        match (kind, self) {
            (CellType::Float, TableCell::Integer(number)) => TableCell::Number(*number as f64),
            (CellType::Text, TableCell::Integer(number)) => TableCell::Text(number.to_string()),
            (CellType::Text, TableCell::Number(number)) => TableCell::Text(number.to_string()),
            (CellType::Int, TableCell::Number(number)) if number.fract() == 0.0 => {
                TableCell::Integer(*number as i64)
            }
            (CellType::Int, TableCell::Integer(_))
            | (CellType::Float, TableCell::Number(_))
            | (CellType::Text, TableCell::Text(_)) => self.clone(),
            _ => TableCell::Empty,
        }
    }

    fn as_text(&self) -> Option<String> {
        if let TableCell::Text(text) = self { Some(text.clone()) } else { None }
    }

    fn as_integer(&self) -> Option<i64> {
        if let TableCell::Integer(number) = self { Some(*number) } else { None }
    }

    fn as_number(&self) -> Option<f64> {
        if let TableCell::Number(number) = self { Some(*number) } else { None }
    }

    fn text(&self) -> String {
        match self {
            TableCell::Empty => String::new(),
            TableCell::Text(text) => text.clone(),
            TableCell::Integer(number) => number.to_string(),
            // The shortest text that parses to the same bits.
            TableCell::Number(number) => csv_number(*number),
        }
    }
}

/// Table with named and typed columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<(String, CellType)>,
    rows: Vec<Vec<TableCell>>,
}

impl Table {
    /// Creates a table with these columns and no rows.
    pub fn new(columns: Vec<(String, CellType)>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row with entries in the order of columns.
    ///
    /// Missing entries are empty, and so are entries that are not of their column's type.
    pub fn push(&mut self, row: Vec<TableCell>) {
        let mut cells = row.into_iter();
        let row = self.columns.iter().map(|(_, kind)| match cells.next() {
            Some(cell) => cell.as_kind(*kind),
            None => TableCell::Empty,
        });
        self.rows.push(row.collect());
    }

    /// Returns the name and the type of every column.
    pub fn columns(&self) -> &[(String, CellType)] {
        &self.columns
    }

    /// Returns the rows, each with one entry per column.
    pub fn rows(&self) -> &[Vec<TableCell>] {
        &self.rows
    }

    /// Formats the table as CSV, with a header line.
    pub fn to_csv(&self) -> String {
        let mut out = csv::Writer::from_writer(Vec::new());
        let head = self.columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let rows = self.rows.iter().map(|row| row.iter().map(TableCell::text).collect());
        for line in std::iter::once(head).chain(rows) {
            out.write_record(&line)
                .expect("every row is as long as the head, and memory takes all");
        }
        let bytes = out.into_inner().expect("memory takes everything");
        String::from_utf8(bytes).expect("written from texts")
    }

    /// Formats the table as Parquet: one row group of nullable `UTF8`, `INT64` and `DOUBLE` columns.
    ///
    /// # Errors
    /// Fails if the format cannot hold the table, for example with two columns of one name.
    pub fn to_parquet(&self) -> Result<Vec<u8>, ResultsError> {
        let columns = self.columns.iter().enumerate();
        let columns: Vec<_> =
            columns.map(|(at, (name, kind))| (name.as_str(), self.values(at, *kind))).collect();
        encode(&columns).map_err(|error| ResultsError::Parquet(error.to_string()))
    }

    fn values(&self, at: usize, kind: CellType) -> Values {
        let cells = self.rows.iter().map(|row| &row[at]);
        match kind {
            CellType::Text => Values::Text(cells.map(TableCell::as_text).collect()),
            CellType::Int => Values::Int(cells.map(TableCell::as_integer).collect()),
            CellType::Float => Values::Float(cells.map(TableCell::as_number).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    use super::*;

    #[test]
    fn csv_quotes_what_needs_it_and_keeps_columns() {
        let mut table = Table::new(vec![
            ("who".into(), CellType::Text),
            ("n".into(), CellType::Int),
            ("x".into(), CellType::Float),
        ]);
        table.push(vec!["a, \"b\"".into(), TableCell::Integer(3), TableCell::Number(0.1 + 0.2)]);
        table.push(vec![TableCell::Empty, TableCell::Number(2.0), TableCell::Integer(1)]);
        table.push(vec![TableCell::Integer(7), "seven".into()]);
        let text = "who,n,x\n\"a, \"\"b\"\"\",3,0.30000000000000004\n,2,1\n7,,\n";
        assert_eq!(table.to_csv(), text);
    }

    #[test]
    fn what_is_written_reads_back_with_types_and_gaps() {
        let mut table = Table::new(vec![
            ("method".into(), CellType::Text),
            ("clients".into(), CellType::Int),
            ("faa".into(), CellType::Float),
        ]);
        table.push(vec!["hgp ü".into(), TableCell::Integer(10), TableCell::Number(0.1 + 0.2)]);
        table.push(vec![TableCell::Empty, TableCell::Integer(-500), TableCell::Empty]);
        table.push(vec!["stsa".into(), TableCell::Empty, TableCell::Number(-1e-300)]);
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
        let table = Table::new(vec![("a".into(), CellType::Text)]);
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
