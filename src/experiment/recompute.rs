//! Recomputation of the end of a task that was not kept, in the way that a killed run is resumed.

use parking_lot::Mutex;
use std::sync::Arc;

use super::resume::Intact;
use crate::federation::{
    Cadence, Entry, EventSink, FederationError, Interrupt, Setup, SinkError, Snapshot,
    SnapshotPlace, simulate,
};
use crate::quantity::TaskId;

/// Goes on from a checkpoint, or from the beginning, until a task ends. `None` if the user stopped it before.
pub(super) fn recompute(
    mut setup: Setup,
    from: Option<Intact>,
    task: TaskId,
    interrupt: Interrupt,
) -> Result<Option<Snapshot>, FederationError> {
    setup.recorded = from.map(|intact| Arc::new(intact.recorded));
    (setup.rules.snapshots, setup.rules.models) = (Cadence::Tasks, false);
    setup.rules.answers = false;
    let (found, stop) = (Arc::new(Mutex::new(None)), Interrupt::default());
    let waiting = SnapshotTaker { task, found: Arc::clone(&found), stop: stop.clone(), interrupt };
    simulate(setup, Box::new(waiting), Box::new(()), stop)?;
    Ok(found.lock().take())
}

/// Sink that takes one snapshot and ends the run.
struct SnapshotTaker {
    task: TaskId,
    found: Arc<Mutex<Option<Snapshot>>>,
    stop: Interrupt,
    /// Set when the user presses Ctrl-C.
    interrupt: Interrupt,
}

impl EventSink for SnapshotTaker {
    fn record(&mut self, _entry: &Entry) -> Result<(), SinkError> {
        if self.interrupt.is_requested() {
            self.stop.request();
        }
        Ok(())
    }

    fn wants_snapshot(&self) -> bool {
        true
    }

    fn keep(&mut self, snapshot: &Snapshot) -> Result<(), SinkError> {
        if snapshot.place == SnapshotPlace::Task(self.task) {
            *self.found.lock() = Some(snapshot.clone());
            self.stop.request();
        }
        Ok(())
    }
}
