//! Metrics of the cache in a run. Measured, so outside every digest.

use serde::{Deserialize, Serialize};

use crate::document::Document;

/// Counts over all stores of a run, in samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, Document)]
pub struct CacheCounts {
    /// Samples whose features the frozen network computed, each once.
    pub computed: u64,
    /// Time that their computation took, summed over workers.
    pub compute_s: f64,
    /// Samples whose features were read from files of earlier runs.
    pub loaded: u64,
    /// Samples whose features were damaged in files and computed again.
    pub damaged: u64,
    /// Features that were taken from the cache in place of pixels.
    pub read: u64,
}

impl CacheCounts {
    /// Returns the sums of both.
    pub fn plus(self, other: CacheCounts) -> CacheCounts {
        CacheCounts {
            computed: self.computed + other.computed,
            compute_s: self.compute_s + other.compute_s,
            loaded: self.loaded + other.loaded,
            damaged: self.damaged + other.damaged,
            read: self.read + other.read,
        }
    }
}
