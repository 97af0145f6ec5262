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

use crate::federation::ledger::Ledger;
use crate::federation::{Entry, Event, EventSink, SinkError};
use crate::quantity::Round;
use crate::report::csv::Csv;
use crate::report::words::{CONTROL, direction_word, outcome_word};

const HEAD: [&str; 10] =
    ["round", "task", "phase", "client", "direction", "outcome", "kind", "frames", "bytes", "sent"];

/// Writes one row per round, client, direction, outcome and kind.
pub struct BytesTable<W: Write> {
    csv: Csv<W>,
    ledger: Ledger,
}

impl<W: Write> BytesTable<W> {
    /// Writes the head.
    pub fn new(out: W) -> io::Result<Self> {
        Ok(BytesTable { csv: Csv::new(out, &HEAD)?, ledger: Ledger::default() })
    }

    fn flush(&mut self, last: Round) -> io::Result<()> {
        for (key, sums) in self.ledger.drain(last) {
            let kinds = sums.kinds.iter().map(|(kind, bytes)| (kind.name(), bytes, None));
            let control = [(CONTROL, sums.control, Some(sums.sent))];
            for (kind, bytes, sent) in control.into_iter().chain(kinds) {
                self.csv.row(&[
                    (key.round.0 + 1).to_string(),
                    (key.task.0 + 1).to_string(),
                    key.phase.to_string(),
                    key.client.0.to_string(),
                    direction_word(key.direction).to_string(),
                    outcome_word(key.outcome).to_string(),
                    kind.to_string(),
                    sums.frames.to_string(),
                    bytes.0.to_string(),
                    sent.map_or(String::new(), |sent| sent.0.to_string()),
                ])?;
            }
        }
        self.csv.flush()
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
