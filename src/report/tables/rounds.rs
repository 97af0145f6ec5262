//! `rounds.csv`: accuracy, loss, virtual time and bytes, one row per round.
//!
//! A row is written once it is final, see [`RoundRows`]. `rounds.jsonl` has the same rows as flat JSON objects, with
//! `_step` for trackers that need one.

use std::io::{self, Write};

use super::json_lines::JsonLines;
use super::round_rows::{RoundRow, RoundRows};
use crate::federation::{ClosingPolicy, Entry, EventSink, SinkError};
use crate::report::column::Columns;
use crate::report::csv::Csv;

/// Writes one row per round, as CSV and as a line of JSON.
pub struct RoundsTable<W: Write> {
    csv: Csv<W, RoundRow>,
    json: JsonLines<W>,
    rows: RoundRows,
}

impl<W: Write> RoundsTable<W> {
    /// Writes the header of a table of rounds that close by this rule.
    pub fn new(csv: W, json: W, closing: ClosingPolicy) -> io::Result<Self> {
        let (csv, json) = (Csv::new(csv)?, JsonLines::new(json, RoundRow::COLUMNS, "round"));
        Ok(RoundsTable { csv, json, rows: RoundRows::new(closing) })
    }
}

impl<W: Write + Send> EventSink for RoundsTable<W> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        for row in self.rows.take(entry)? {
            self.csv.row(&row)?;
            self.json.row(&row)?;
        }
        Ok(())
    }
}
