//! `bytes.csv`: exact sums by round, client, direction, outcome and kind.
//!
//! The rows of one (round, client, direction, outcome) add up to its frames: kind `control` holds headers, typed
//! fields and tensor tables, the other kinds hold payload. `bytes` are those of whole frames for every outcome, so
//! the column adds up; the bytes of lost frames that crossed a link are in `rounds.csv`, `participation.csv` and
//! `clients.csv`. `frames` is repeated in every row of the same frames: sum it over one kind.
//!
//! Rows of a round are written when it closes. A frame that arrives later adds a second row with the same key when
//! the next round closes: sum the two.

use std::io::{self, Write};

use serde::Serialize;

use super::phases::Phases;
use crate::federation::ledger::Ledger;
use crate::federation::{Entry, Event, EventSink, SinkError};
use crate::quantity::Round;
use crate::report::column::{CLIENT, Columns, PHASE, ROUND, TASK};
use crate::report::csv::Csv;
use crate::report::words::{CONTROL, direction_word, outcome_word};

#[derive(Columns, Serialize)]
pub(in crate::report) struct BytesRow {
    #[column(as_in = ROUND)]
    round: u64,
    #[column(as_in = TASK)]
    task: u32,
    #[column(as_in = PHASE)]
    phase: String,
    #[column(as_in = CLIENT)]
    client: u32,
    /// Direction: `down` to the client, `up` from it.
    direction: &'static str,
    /// Outcome of the frames: `delivered`, `late` (after the round had closed), `lost` or `duplicate`.
    outcome: &'static str,
    /// Kind of the bytes: `control` (headers, typed fields, tensor tables) or a kind of payload.
    kind: &'static str,
    /// Frames of this round, client, direction and outcome, repeated in each of their rows.
    frames: u64,
    /// Bytes of this kind in these frames.
    bytes: u64,
}

/// Writes one row per round, client, direction, outcome and kind.
pub struct BytesTable<W: Write> {
    csv: Csv<W, BytesRow>,
    phases: Phases,
    ledger: Ledger,
}

impl<W: Write> BytesTable<W> {
    /// Writes the header.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(BytesTable { csv: Csv::new(out)?, phases: Phases::default(), ledger: Ledger::default() })
    }

    fn flush(&mut self, last: Round) -> io::Result<()> {
        for (key, sums) in self.ledger.drain(last) {
            let kinds = sums.kinds.iter().map(|(kind, bytes)| (kind.name(), bytes));
            let control = [(CONTROL, sums.control)];
            for (kind, bytes) in control.into_iter().chain(kinds) {
                self.csv.row(&BytesRow {
                    round: u64::from(key.round.0) + 1,
                    task: u32::from(key.task.0) + 1,
                    phase: self.phases.name(key.task, key.phase),
                    client: key.client.0,
                    direction: direction_word(key.direction),
                    outcome: outcome_word(key.outcome),
                    kind,
                    frames: sums.frames,
                    bytes: bytes.0,
                })?;
            }
        }
        Ok(())
    }
}

impl<W: Write + Send> EventSink for BytesTable<W> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.ledger.record(entry)?;
        self.phases.take(&entry.event);
        match &entry.event {
            Event::RoundClosed { round, .. } => self.flush(*round)?,
            Event::TaskEnded { .. } | Event::RunEnded { .. } => self.flush(Round(u32::MAX))?,
            _ => {}
        }
        Ok(())
    }
}
