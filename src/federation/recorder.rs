//! Recording: entries go to the sink in batches; an actor does the operations that a run waits for.

use std::cell::RefCell;
use std::rc::Rc;

use actix::{Actor, Context, Handler};

use super::error::SinkError;
use super::evaluation::SampleAnswer;
use super::event::{Entry, Event, Numbers};
use super::sink::EventSink;
use super::snapshot::Snapshot;
use crate::quantity::{TaskId, VirtualTime};
use crate::wire::Body;

/// Number of entries in a batch, for all of which the clock is read once.
const BATCH: usize = 64;

/// The sink, on the one thread of the simulation.
type SharedSink = Rc<RefCell<Box<dyn EventSink>>>;

/// Entries of a run: numbered as they happen, written in batches.
pub(super) struct EntryLog {
    sink: SharedSink,
    batch: Vec<Entry>,
    written: u64,
}

impl EntryLog {
    /// Creates an empty log, and the recorder of the same sink.
    pub fn new(sink: Box<dyn EventSink>) -> (EntryLog, RecorderActor) {
        let sink = Rc::new(RefCell::new(sink));
        let log = EntryLog { sink: Rc::clone(&sink), batch: Vec::with_capacity(BATCH), written: 0 };
        (log, RecorderActor(sink))
    }

    /// Adds an entry to the batch.
    pub fn note(&mut self, at: VirtualTime, event: Event, numbers: Option<Numbers>) {
        let seq = self.written + self.batch.len() as u64;
        self.batch.push(Entry { seq, at, event, numbers });
    }

    /// Returns true if the batch should be written.
    pub fn is_full(&self) -> bool {
        self.batch.len() >= BATCH
    }

    /// Returns true if nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Writes the batch to the sink.
    ///
    /// # Errors
    /// Returns the error of the sink; the rest of the batch is lost then.
    pub fn write(&mut self) -> Result<(), SinkError> {
        let mut sink = self.sink.borrow_mut();
        for entry in self.batch.drain(..) {
            sink.record(&entry)?;
            self.written += 1;
        }
        Ok(())
    }

    /// Returns the number of entries written.
    pub fn written(&self) -> u64 {
        self.written
    }
}

/// Actor that keeps models, confusion counts and snapshots, and flushes what was written to disk.
pub(super) struct RecorderActor(SharedSink);

impl Actor for RecorderActor {
    type Context = Context<Self>;
}

/// Request to flush what was written to disk, while the run waits anyway.
pub(super) struct Flush;

impl actix::Message for Flush {
    type Result = Result<(), SinkError>;
}

impl Handler<Flush> for RecorderActor {
    type Result = Result<(), SinkError>;

    fn handle(&mut self, _: Flush, _: &mut Context<Self>) -> Self::Result {
        self.0.borrow_mut().settle()
    }
}

/// Takes the answers to the test samples after a task.
pub(super) struct RecordAnswers(pub TaskId, pub Vec<SampleAnswer>);

impl actix::Message for RecordAnswers {
    type Result = Result<(), SinkError>;
}

impl Handler<RecordAnswers> for RecorderActor {
    type Result = Result<(), SinkError>;

    fn handle(&mut self, message: RecordAnswers, _: &mut Context<Self>) -> Self::Result {
        let RecordAnswers(task, answers) = message;
        self.0.borrow_mut().answered(task, &answers)
    }
}

/// Request to record the server's state after a task.
pub(super) struct RecordModel(pub TaskId, pub Body);

impl actix::Message for RecordModel {
    type Result = Result<(), SinkError>;
}

impl Handler<RecordModel> for RecorderActor {
    type Result = Result<(), SinkError>;

    fn handle(&mut self, message: RecordModel, _: &mut Context<Self>) -> Self::Result {
        let RecordModel(task, state) = message;
        self.0.borrow_mut().save_model(task, &state)
    }
}

/// Query that is answered with true if the sink would keep a snapshot now.
pub(super) struct WantsSnapshot;

impl actix::Message for WantsSnapshot {
    type Result = bool;
}

impl Handler<WantsSnapshot> for RecorderActor {
    type Result = bool;

    fn handle(&mut self, _: WantsSnapshot, _: &mut Context<Self>) -> Self::Result {
        self.0.borrow_mut().wants_snapshot()
    }
}

/// Request to keep a snapshot, taken after everything that was written.
pub(super) struct SaveSnapshot(pub Snapshot);

impl actix::Message for SaveSnapshot {
    type Result = Result<(), SinkError>;
}

impl Handler<SaveSnapshot> for RecorderActor {
    type Result = Result<(), SinkError>;

    fn handle(&mut self, message: SaveSnapshot, _: &mut Context<Self>) -> Self::Result {
        self.0.borrow_mut().keep(&message.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::{EndReason, MemorySink};

    #[test]
    fn entries_are_numbered_over_batches() {
        let memory = MemorySink::default();
        let (mut log, _) = EntryLog::new(Box::new(memory.clone()));
        for at in 0..5 {
            log.note(VirtualTime(at), Event::RunEnded { reason: EndReason::Done }, None);
            if at % 2 == 1 {
                log.write().expect("memory takes all");
                assert!(log.is_empty());
            }
        }
        assert_eq!(log.written(), 4, "the last one was not written");
        log.write().expect("memory takes all");
        let entries = memory.entries();
        let numbers: Vec<(u64, u64)> = entries.iter().map(|e| (e.seq, e.at.0)).collect();
        assert_eq!(numbers, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]);
    }
}
