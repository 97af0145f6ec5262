//! What the cache did for a run. Measured, so outside every digest.

use serde::{Deserialize, Serialize};

/// Counts over all stores of a run, in samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheFigures {
    /// Computed by the frozen network, each once.
    pub computed: u64,
    /// Seconds that took, summed over workers.
    pub compute_s: f64,
    /// Found whole in files of earlier runs.
    pub loaded: u64,
    /// Found damaged in files, and computed again.
    pub damaged: u64,
    /// Rows handed out in place of pixels.
    pub read: u64,
}

impl CacheFigures {
    /// Both together.
    pub fn plus(self, other: CacheFigures) -> CacheFigures {
        CacheFigures {
            computed: self.computed + other.computed,
            compute_s: self.compute_s + other.compute_s,
            loaded: self.loaded + other.loaded,
            damaged: self.damaged + other.damaged,
            read: self.read + other.read,
        }
    }
}
