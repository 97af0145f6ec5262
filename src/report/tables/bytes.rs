//! `bytes.csv`: exact sums by round, direction, outcome and kind.
//!
//! The rows of one (round, direction, outcome) add up to its frames: kind `control` holds
//! headers, typed fields and tensor tables, the other kinds hold payload. Rows of a task are
//! written when it ends, because only then no frame of it is under way any more.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::federation::{Direction, Entry, Event, EventSink, FrameOutcome, SinkError};
use crate::quantity::{Round, TaskId};
use crate::report::csv::Csv;
use crate::report::traffic::{CONTROL, Traffic, direction_word, outcome_word};

type Key = (Round, TaskId, u32, Direction, FrameOutcome);

/// Writes one row per round, direction, outcome and kind.
pub struct BytesTable<W: Write> {
    csv: Csv<W>,
    open: BTreeMap<Key, Traffic>,
}

impl<W: Write> BytesTable<W> {
    /// Writes the head.
    pub fn new(out: W) -> io::Result<Self> {
        let head = ["round", "task", "phase", "direction", "outcome", "kind", "frames", "bytes"];
        Ok(BytesTable { csv: Csv::new(out, &head)?, open: BTreeMap::new() })
    }

    fn flush(&mut self) -> io::Result<()> {
        for ((round, task, phase, direction, outcome), sum) in std::mem::take(&mut self.open) {
            let kinds = sum.kinds.iter().map(|(kind, bytes)| (kind.as_str(), *bytes));
            for (kind, bytes) in [(CONTROL, sum.control)].into_iter().chain(kinds) {
                self.csv.row(&[
                    (round.0 + 1).to_string(),
                    (task.0 + 1).to_string(),
                    phase.to_string(),
                    direction_word(direction).to_string(),
                    outcome_word(outcome).to_string(),
                    kind.to_string(),
                    sum.frames.to_string(),
                    bytes.to_string(),
                ])?;
            }
        }
        Ok(())
    }
}

impl<W: Write + Send> EventSink for BytesTable<W> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        match &entry.event {
            Event::FrameCharged {
                round,
                task,
                phase,
                direction,
                outcome,
                bytes,
                sent,
                copy,
                ..
            } => {
                let key = (*round, *task, *phase, *direction, *outcome);
                self.open.entry(key).or_default().add(bytes, *sent, *copy);
            }
            Event::TaskEnded { .. } | Event::RunEnded { .. } => self.flush()?,
            _ => {}
        }
        Ok(())
    }
}
