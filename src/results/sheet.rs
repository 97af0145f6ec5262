//! Reader of a run's CSV tables.

use std::path::Path;

use super::ResultsError;
use crate::files::{self, FileKind};

/// Rows of text under named columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    /// Names of the columns, from the header line.
    pub columns: Vec<String>,
    /// Rows, each with one entry per column.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is no CSV table.
    pub fn read(path: &Path) -> Result<Option<Sheet>, ResultsError> {
        let file = match files::open(path, FileKind::Journal) {
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

    /// Returns the index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Returns the numbers of a column by row, `None` for empty entries; `None` if there is no such column.
    pub fn numbers(&self, name: &str) -> Option<Vec<Option<f64>>> {
        let column = self.column(name)?;
        Some(self.rows.iter().map(|row| row.get(column)?.parse().ok()).collect())
    }

    /// Returns the sum of a column; `None` if there is no such column.
    pub fn sum(&self, name: &str) -> Option<f64> {
        // Starts from 0, so that an empty sum is not -0.
        Some(self.numbers(name)?.into_iter().flatten().fold(0.0, |sum, number| sum + number))
    }
}
