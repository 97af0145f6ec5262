//! A model that nobody kept is computed again, as a run that was killed goes on.

use std::sync::{Arc, Mutex, PoisonError};

use super::ExportError;
use crate::experiment::error::ExperimentError;
use crate::experiment::resume::Intact;
use crate::experiment::task_ends::End;
use crate::federation::{Digest, Entry, EventSink, Interrupt, Setup, SinkError, simulate};
use crate::quantity::TaskId;
use crate::scenario::Cadence;
use crate::wire::Body;

/// Goes on from a checkpoint until the task ends.
pub(super) fn recompute(
    mut setup: Setup,
    from: Option<Intact>,
    end: End,
    interrupt: Interrupt,
) -> Result<Body, ExperimentError> {
    (setup.rules.snapshots, setup.rules.models) = (Cadence::Never, true);
    setup.rules.confusion = false;
    setup.past = from.map(|intact| Arc::new(intact.past));
    let found = Arc::new(Mutex::new(None));
    let stop = Interrupt::default();
    let sink = Waiting {
        task: end.task,
        found: Arc::clone(&found),
        stop: stop.clone(),
        asked: interrupt.clone(),
    };
    simulate(setup, Box::new(sink), Box::new(()), stop)?;
    let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(state) = found else {
        return Err(ExportError::NotKept { task: u32::from(end.task.0) + 1 }.into());
    };
    match Digest(Body::digest(&state)) {
        computed if computed != end.digest => {
            Err(ExportError::Different { computed, recorded: end.digest }.into())
        }
        _ => Ok(state),
    }
}

/// Takes one model and ends the run.
struct Waiting {
    task: TaskId,
    found: Arc<Mutex<Option<Body>>>,
    stop: Interrupt,
    /// Somebody pressed Ctrl-C.
    asked: Interrupt,
}

impl EventSink for Waiting {
    fn record(&mut self, _entry: &Entry) -> Result<(), SinkError> {
        if self.asked.is_requested() {
            self.stop.request();
        }
        Ok(())
    }

    fn learnt(&mut self, task: TaskId, state: &Body) -> Result<(), SinkError> {
        if task == self.task {
            *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(state.clone());
            self.stop.request();
        }
        Ok(())
    }
}
