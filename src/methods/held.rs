//! Samples by task, as a client's state.

use crate::learning::exemplars::ByTask;
use crate::policy::ClientState;
use crate::wire::{Body, WireError};

/// A client's samples by task.
pub type HeldSamples = ByTask;

impl ClientState for ByTask {
    fn save(&self) -> Body {
        ByTask::save(self)
    }

    fn load(saved: &Body) -> Result<Self, WireError> {
        ByTask::load(saved)
    }

    fn kept_bytes(&self) -> u64 {
        self.bytes()
    }
}
