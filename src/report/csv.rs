//! Comma-separated tables, written row by row so that a killed run leaves whole rows.

use std::io::{self, Write};

/// A table being written.
pub struct Csv<W: Write> {
    out: W,
    columns: usize,
}

impl<W: Write> Csv<W> {
    /// Writes the head.
    pub fn new(mut out: W, head: &[&str]) -> io::Result<Csv<W>> {
        writeln!(out, "{}", head.join(","))?;
        out.flush()?;
        Ok(Csv { out, columns: head.len() })
    }

    /// Writes one row.
    pub fn row<S: AsRef<str>>(&mut self, cells: &[S]) -> io::Result<()> {
        debug_assert_eq!(cells.len(), self.columns, "a row has one cell per column");
        let mut line = cells.iter().map(|cell| quoted(cell.as_ref())).collect::<Vec<_>>().join(",");
        line.push('\n');
        self.out.write_all(line.as_bytes())
    }

    /// Hands everything to the file.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// RFC 4180: quotes where a separator, a quote or a line break would change the table.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_string()
    }
}

/// A number as the shortest text that reads back to the same bits; nothing where there is none.
pub fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_would_break_the_table_are_quoted() {
        let mut bytes = Vec::new();
        let mut csv = Csv::new(&mut bytes, &["who", "why"]).unwrap();
        csv.row(&["1", "lost, \"late\""]).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), "who,why\n1,\"lost, \"\"late\"\"\"\n");
        assert_eq!(number(Some(0.1 + 0.2)).parse::<f64>().unwrap(), 0.1 + 0.2);
    }
}
