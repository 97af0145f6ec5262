//! Receivers of entries and wall times: the two interfaces through which a run is observed.

use super::error::SinkError;
use super::evaluation::SampleAnswer;
use super::event::Entry;
use super::journal::{Digests, Journal};
use super::snapshot::Snapshot;
use crate::document::Document;
use crate::quantity::TaskId;
use crate::wire::Body;

/// Takes every entry of a run, in order.
pub trait EventSink: Send {
    /// Takes one entry; an error ends the run.
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError>;

    /// Writes the entries taken so far to disk, where they survive the process.
    ///
    /// Called when the run waits for a worker anyway; implementors that buffer override it.
    fn settle(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    /// Takes the answers of the test after a task, in the order of the test.
    ///
    /// Called if the rules ask for it ([`Rules::answers`](super::Rules::answers)). They are no part of the journal: a
    /// recorded past has none.
    fn answered(&mut self, task: TaskId, answers: &[SampleAnswer]) -> Result<(), SinkError> {
        let _ = (task, answers);
        Ok(())
    }

    /// Takes the server's state after a task.
    ///
    /// Called if the rules ask for it ([`Rules::models`](super::Rules::models)).
    fn save_model(&mut self, task: TaskId, state: &Body) -> Result<(), SinkError> {
        let _ = (task, state);
        Ok(())
    }

    /// Returns true if the sink would keep a snapshot now.
    fn wants_snapshot(&self) -> bool {
        false
    }

    /// Keeps a snapshot, taken after the entries so far.
    ///
    /// Called if the rules' cadence and [`wants_snapshot`](EventSink::wants_snapshot) ask for it.
    fn keep(&mut self, snapshot: &Snapshot) -> Result<(), SinkError> {
        let _ = snapshot;
        Ok(())
    }
}

/// Kind of work of a thread of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, Document)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Local training of a pack.
    Train,
    /// Training of a pack up to a lack of device memory; it was tried again in halves, or one by one.
    ///
    /// There is a line of the profile for each time.
    Retry,
    /// Checking of an upload, and aggregation of parts.
    Aggregate,
    /// Step of the server's policy.
    Server,
    /// Evaluation of a block of test samples.
    Evaluate,
    /// Packing, coding, measuring and digesting of messages.
    ///
    /// It is a part of training and server jobs that is counted here and not there.
    Codec,
    /// Comparison of client models.
    Bias,
    /// Collecting and writing of snapshots.
    Snapshot,
    /// Numbering, writing and digesting of entries, with all tables that consume them.
    Journal,
    /// No work: a worker without a job, or the event loop without an answer.
    Idle,
}

/// Wall time of one piece of work, or of several short ones; never part of a digest.
#[derive(Clone, Copy, Debug, serde::Serialize, Document)]
pub struct Span {
    /// Kind of job: `train`, `retry`, `evaluate`, `aggregate`, `server`, `bias`, `codec`, `snapshot`, `journal`
    /// or `idle`.
    pub job: JobKind,
    /// Number of the worker, from 0; null for the event loop.
    ///
    /// The event loop is the thread that orders events.
    pub worker: Option<usize>,
    /// Time that the job stood in the queue; 0 for work that was not queued.
    #[document(unit = "ns")]
    pub waited: u64,
    /// Time that the job took.
    #[document(unit = "ns")]
    pub wall: u64,
}

/// Takes wall times, in any order, from any worker.
pub trait ProfileSink: Send {
    /// Takes one span.
    fn record(&mut self, span: &Span);
}

/// Forgets all spans.
impl ProfileSink for () {
    fn record(&mut self, _span: &Span) {}
}

/// Keeps everything in memory, for tests and small programs. Clones share what was kept.
#[derive(Clone, Default)]
pub struct MemorySink {
    shared: std::sync::Arc<parking_lot::Mutex<(Vec<Entry>, Journal)>>,
}

impl MemorySink {
    /// Returns all entries so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.shared.lock().0.clone()
    }

    /// Returns the digests so far.
    pub fn digests(&self) -> Digests {
        self.shared.lock().1.digests()
    }
}

impl EventSink for MemorySink {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let mut shared = self.shared.lock();
        shared.1.push(entry);
        shared.0.push(entry.clone());
        Ok(())
    }
}
