//! Cost of a unit of each kind of work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::Document;

/// Seconds of one worker by unit of work, measured by a [`trial`](super::trial()).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Document)]
pub struct Costs {
    /// Date of the trial in UTC, such as `2026-11-22`.
    pub measured: String,
    /// Duration of the trial in seconds, without reading data and weights.
    pub took_s: f64,
    /// Number of sample passes in the trial.
    pub passes: f64,
    /// Number of test predictions in the trial.
    pub tested: u64,
    /// Seconds per sample pass of local training, without computing features.
    pub pass_s: f64,
    /// Seconds per sample pass, by name of the phase. Some phases only read samples, others train.
    #[serde(default)]
    pub phase_pass_s: BTreeMap<String, f64>,
    /// Seconds per test prediction, without computing features. If the trial ended before a test, a third of `pass_s`: a
    /// forward pass without its backward pass.
    pub test_s: f64,
    /// Seconds per feature of a frozen network; 0 if none is frozen, or all features were read from files.
    pub feature_s: f64,
    /// True if features of training samples are cached, too, which augmentation prevents.
    pub features_of_training: bool,
    /// Seconds of the server's own training per sample pass.
    pub server_pass_s: f64,
    /// Seconds of the server's work at the end of a round, if the method does not report its passes.
    pub server_round_s: f64,
    /// Seconds of encoding, aggregation and recording, per entry of the journal.
    pub entry_s: f64,
    /// Bytes per line of the journal.
    pub entry_bytes: f64,
    /// Number of test samples of all classes.
    pub test_samples: u64,
    /// Bytes of a checkpoint.
    pub state_bytes: u64,
    /// Peak memory of the process in MB, if the system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_mb: Option<f64>,
    /// Peak memory of tensors on one GPU in MB, for runs on GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_gpu_memory_mb: Option<f64>,
}

impl Costs {
    /// Returns the seconds per sample pass in phases of this name, or in all phases if the trial saw none.
    pub fn pass_s_in(&self, phase: &str) -> f64 {
        self.phase_pass_s.get(phase).copied().unwrap_or(self.pass_s)
    }
}
