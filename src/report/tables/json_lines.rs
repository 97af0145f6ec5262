//! Rows of a table as lines of JSON.
//!
//! Rows are flat objects with the columns as keys, so that pandas, jq and experiment trackers read them directly.
//!
//! Cells are those of the CSV table, typed by its columns. An empty cell is `null`, and so is a number that JSON
//! cannot write.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use crate::report::column::{CellType, Column};
use crate::report::csv::cells;

/// Writer of rows as lines of JSON.
pub(super) struct JsonLines<W: Write> {
    out: W,
    columns: &'static [Column],
    /// Column that is repeated in first place as `_step`.
    step: &'static str,
}

impl<W: Write> JsonLines<W> {
    /// Creates the writer; nothing is written yet.
    pub fn new(out: W, columns: &'static [Column], step: &'static str) -> Self {
        JsonLines { out, columns, step }
    }

    /// Writes a row and flushes it.
    pub fn row<R: Serialize>(&mut self, row: &R) -> io::Result<()> {
        // By hand, so that keys are in the order of columns whatever features serde_json is built with.
        let mut keys = Vec::new();
        for (column, cell) in self.columns.iter().zip(cells(row)?) {
            let value = value(column.cells, &cell);
            if column.name == self.step {
                keys.insert(0, format!("\"_step\":{value}"));
            }
            keys.push(format!("\"{}\":{value}", column.name));
        }
        let line = format!("{{{}}}\n", keys.join(","));
        self.out.write_all(line.as_bytes())?;
        self.out.flush()
    }
}

fn value(cells: CellType, cell: &str) -> Value {
    let number = match cells {
        _ if cell.is_empty() => return Value::Null,
        CellType::Text => return cell.into(),
        CellType::Int => cell.parse::<u64>().ok().map(Value::from),
        CellType::Float => cell.parse::<f64>().ok().filter(|x| x.is_finite()).map(Value::from),
    };
    number.unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::column::{float, int, text};
    use crate::report::csv::Number;

    #[test]
    fn cells_are_typed_by_their_columns_and_not_by_their_looks() {
        const COLUMNS: &[Column] =
            &[int("n", "", ""), text("word", ""), float("x", "", ""), float("y", "", "")];
        let mut lines = JsonLines::new(Vec::new(), COLUMNS, "n");
        lines.row(&(7, "12", Number(3.0), None::<Number>)).unwrap();
        lines.row(&(8, "", Number(f64::INFINITY), Some(Number(0.1)))).unwrap();
        let text = String::from_utf8(lines.out).unwrap();
        assert_eq!(
            text,
            "{\"_step\":7,\"n\":7,\"word\":\"12\",\"x\":3.0,\"y\":null}\n\
             {\"_step\":8,\"n\":8,\"word\":null,\"x\":null,\"y\":0.1}\n"
        );
    }
}
