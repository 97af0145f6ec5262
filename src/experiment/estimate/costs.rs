//! Cost of a unit of each kind of work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::Document;

/// Seconds of one worker by unit of work, measured by a [`trial`](super::trial()).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Document)]
pub struct Costs {
    /// The day it was measured, in UTC: `2026-11-22`.
    pub measured: String,
    /// Seconds the trial took, without reading data and weights.
    pub took_s: f64,
    /// Sample passes it made.
    pub passes: f64,
    /// Answers it tested.
    pub tested: u64,
    /// A sample pass of local training, features not counted.
    pub pass_s: f64,
    /// Seconds per sample pass by name of the phase. Phases differ: some only look at samples and others train.
    #[serde(default)]
    pub phase_pass_s: BTreeMap<String, f64>,
    /// A tested answer, features not counted. Where the trial ended before a test: a third of a pass, which is a
    /// forward without its backward.
    pub test_s: f64,
    /// A feature of a frozen network; 0 where nothing is frozen, or all was found in files.
    pub feature_s: f64,
    /// True if features of training samples are kept, too: not where they are augmented.
    pub features_of_training: bool,
    /// Seconds of the server's own training per sample pass.
    pub server_pass_s: f64,
    /// Seconds of the server at the end of a round, of a method that does not report its server's passes.
    pub server_round_s: f64,
    /// Coding, aggregation and recording, per entry of the journal.
    pub entry_s: f64,
    /// A journal's line.
    pub entry_bytes: f64,
    /// Test samples of all classes.
    pub test_samples: u64,
    /// A checkpoint.
    pub state_bytes: u64,
    /// Peak memory of the process, where the system reports it, in MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_mb: Option<f64>,
    /// Peak memory of tensors on one GPU, of runs on GPUs, in MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_gpu_memory_mb: Option<f64>,
}

impl Costs {
    /// Returns a sample pass in phases of this name: that of all phases where the trial saw none.
    pub fn pass_s_in(&self, phase: &str) -> f64 {
        self.phase_pass_s.get(phase).copied().unwrap_or(self.pass_s)
    }
}
