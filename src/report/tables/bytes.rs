//! `bytes.csv`: exact sums by round, client, direction, outcome and kind.
//!
//! The rows of one (round, client, direction, outcome) add up to its frames: kind `control`
//! holds headers, typed fields and tensor tables, the other kinds hold payload. `bytes` are whole
//! frames. `sent` is what of all kinds crossed the link, less only where frames were lost; it
//! stands in the row `control`, which every frame has, so that the column adds up too.
//!
//! Rows of a round are written when it closes. A frame that arrives later opens a second row of
//! the same key when the next round closes: add both up.

use std::io::{self, Write};

use serde::Serialize;

use crate::federation::ledger::Ledger;
use crate::federation::{Entry, Event, EventSink, SinkError};
use crate::quantity::Round;
use crate::report::csv::Csv;
use crate::report::words::{CONTROL, direction_word, outcome_word};

#[derive(Default, Serialize)]
struct Row {
    round: u64,
    task: u32,
    phase: u32,
    client: u32,
    direction: &'static str,
    outcome: &'static str,
    kind: &'static str,
    frames: u64,
    bytes: u64,
    sent: Option<u64>,
}

/// Writes one row per round, client, direction, outcome and kind.
pub struct BytesTable<W: Write> {
    csv: Csv<W, Row>,
    ledger: Ledger,
}

impl<W: Write> BytesTable<W> {
    /// Writes the head.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(BytesTable { csv: Csv::new(out)?, ledger: Ledger::default() })
    }

    fn flush(&mut self, last: Round) -> io::Result<()> {
        for (key, sums) in self.ledger.drain(last) {
            let kinds = sums.kinds.iter().map(|(kind, bytes)| (kind.name(), bytes, None));
            let control = [(CONTROL, sums.control, Some(sums.sent))];
            for (kind, bytes, sent) in control.into_iter().chain(kinds) {
                self.csv.row(&Row {
                    round: u64::from(key.round.0) + 1,
                    task: u32::from(key.task.0) + 1,
                    phase: key.phase,
                    client: key.client.0,
                    direction: direction_word(key.direction),
                    outcome: outcome_word(key.outcome),
                    kind,
                    frames: sums.frames,
                    bytes: bytes.0,
                    sent: sent.map(|sent| sent.0),
                })?;
            }
        }
        Ok(())
    }
}

impl<W: Write + Send> EventSink for BytesTable<W> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.ledger.record(entry)?;
        match &entry.event {
            Event::RoundClosed { round, .. } => self.flush(*round)?,
            Event::TaskEnded { .. } | Event::RunEnded { .. } => self.flush(Round(u32::MAX))?,
            _ => {}
        }
        Ok(())
    }
}
