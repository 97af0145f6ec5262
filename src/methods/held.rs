//! Samples by task, as a client's state.

use crate::learning::exemplars::ByTask;
use crate::policy::ClientState;

/// A client's samples by task.
pub type HeldSamples = ByTask;

impl ClientState for ByTask {
    fn state_bytes(&self) -> u64 {
        self.bytes()
    }
}
