//! A CSV table of a run as it stands, read back.

use std::path::Path;

use super::ResultsError;
use crate::files::{self, Kind};

/// Rows of text under named columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    pub columns: Vec<String>,
    /// Every row has as many entries as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// Reads a file; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read, or is no such table.
    pub fn read(path: &Path) -> Result<Option<Sheet>, ResultsError> {
        let file = match files::open(path, Kind::Journal) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ResultsError::Read { path: path.to_owned(), source }),
        };
        let damaged = |error: csv::Error| ResultsError::Damaged {
            path: path.to_owned(),
            why: error.to_string(),
        };
        let mut reader = csv::Reader::from_reader(file);
        let texts = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect();
        let columns = texts(reader.headers().map_err(damaged)?);
        let rows = reader.records().map(|record| record.map(|record| texts(&record)));
        Ok(Some(Sheet { columns, rows: rows.collect::<Result<_, _>>().map_err(damaged)? }))
    }

    /// Where the column of this name stands.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The numbers of a column, row by row; `None` where there is no such column, and of entries that are empty.
    pub fn numbers(&self, name: &str) -> Option<Vec<Option<f64>>> {
        let column = self.column(name)?;
        Some(self.rows.iter().map(|row| row.get(column)?.parse().ok()).collect())
    }

    /// The sum of a column; `None` where there is no such column.
    pub fn sum(&self, name: &str) -> Option<f64> {
        // From 0: the sum of nothing is not -0.
        Some(self.numbers(name)?.into_iter().flatten().fold(0.0, |sum, number| sum + number))
    }
}
