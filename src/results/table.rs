//! A table of typed columns: one set of rows, written as CSV and as Parquet.

use crate::results::ResultsError;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    Text,
    Integer,
    Number,
}

/// One entry; what is not known is [`Cell::Empty`].
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Empty,
    Text(String),
    Integer(i64),
    Number(f64),
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Cell {
        number.map_or(Cell::Empty, Cell::Number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl Cell {
    /// What a column of this kind makes of it; `Empty` of what is of another kind.
    pub(super) fn as_kind(&self, kind: ColumnKind) -> Cell {
        match (kind, self) {
            (ColumnKind::Number, Cell::Integer(number)) => Cell::Number(*number as f64),
            (ColumnKind::Text, Cell::Integer(number)) => Cell::Text(number.to_string()),
            (ColumnKind::Text, Cell::Number(number)) => Cell::Text(number.to_string()),
            (ColumnKind::Integer, Cell::Number(number)) if number.fract() == 0.0 => {
                Cell::Integer(*number as i64)
            }
            (ColumnKind::Integer, Cell::Integer(_))
            | (ColumnKind::Number, Cell::Number(_))
            | (ColumnKind::Text, Cell::Text(_)) => self.clone(),
            _ => Cell::Empty,
        }
    }

    fn text(&self) -> String {
        match self {
            Cell::Empty => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Integer(number) => number.to_string(),
            // The shortest text that reads back to the same bits.
            Cell::Number(number) => number.to_string(),
        }
    }
}

/// Rows under named and typed columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    columns: Vec<(String, ColumnKind)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns and no rows.
    pub fn new(columns: Vec<(String, ColumnKind)>) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row. Entries stand under the columns in order; missing ones are empty, and one that is not of its
    /// column's kind is empty, too.
    pub fn push(&mut self, row: Vec<Cell>) {
        let mut cells = row.into_iter();
        let row = self.columns.iter().map(|(_, kind)| match cells.next() {
            Some(cell) => cell.as_kind(*kind),
            None => Cell::Empty,
        });
        self.rows.push(row.collect());
    }

    pub fn columns(&self) -> &[(String, ColumnKind)] {
        &self.columns
    }

    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// With a head and a line per row.
    pub fn to_csv(&self) -> String {
        let mut out = csv::Writer::from_writer(Vec::new());
        let head = self.columns.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::text).collect());
        for line in std::iter::once(head).chain(rows) {
            out.write_record(&line)
                .expect("every row is as long as the head, and memory takes all");
        }
        let bytes = out.into_inner().expect("memory takes everything");
        String::from_utf8(bytes).expect("written from texts")
    }

    /// One row group of nullable columns: `UTF8`, `INT64` and `DOUBLE`.
    ///
    /// # Errors
    /// The format cannot hold it, such as two columns of one name.
    pub fn to_parquet(&self) -> Result<Vec<u8>, ResultsError> {
        super::parquet_file::write(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_needs_it_and_keeps_columns() {
        let mut table = Table::new(vec![
            ("who".into(), ColumnKind::Text),
            ("n".into(), ColumnKind::Integer),
            ("x".into(), ColumnKind::Number),
        ]);
        table.push(vec!["a, \"b\"".into(), Cell::Integer(3), Cell::Number(0.1 + 0.2)]);
        table.push(vec![Cell::Empty, Cell::Number(2.0), Cell::Integer(1)]);
        table.push(vec![Cell::Integer(7), "seven".into()]);
        let text = "who,n,x\n\"a, \"\"b\"\"\",3,0.30000000000000004\n,2,1\n7,,\n";
        assert_eq!(table.to_csv(), text);
    }
}
