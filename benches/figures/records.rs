//! Recording of a run: the journal in a temporary file, and the ledger.

use std::fs::File;

use fedcast::experiment::JournalWriter;
use fedcast::federation::ledger::Ledger;
use fedcast::federation::{Entry, Event, EventSink, SinkError};

/// Journal and ledger of one run.
pub struct Records {
    journal: JournalWriter<File>,
    ledger: Ledger,
}

impl Records {
    /// Returns empty records.
    pub fn new() -> Box<Records> {
        let file = tempfile::tempfile().expect("a temporary file");
        Box::new(Records { journal: JournalWriter::new(file), ledger: Ledger::default() })
    }
}

impl EventSink for Records {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.journal.push(entry)?;
        self.ledger.record(entry)?;
        if let Event::RoundClosed { round, .. } = entry.event {
            self.ledger.drain(round);
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        Ok(self.journal.settle()?)
    }
}
