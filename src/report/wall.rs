//! Where the wall time of a run went. Outside both digests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::federation::{JobKind, Span};

/// Seconds of work by kind of job, summed over workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WallTimes {
    /// From the first event to the last.
    pub total_s: f64,
    /// Local training.
    pub train_s: f64,
    /// Tests of the global model.
    pub evaluate_s: f64,
    /// The server's own learning, folding, and the comparison of client models.
    pub server_s: f64,
    /// Packing and sizing of messages.
    pub codec_s: f64,
    /// Time that jobs waited for a free worker.
    pub wait_s: f64,
}

/// Adds up spans.
#[derive(Clone, Debug, Default)]
pub struct WallClock {
    worked: BTreeMap<JobKind, u64>,
    waited: u64,
}

impl WallClock {
    /// Takes one span.
    pub fn add(&mut self, span: &Span) {
        *self.worked.entry(span.job).or_default() += span.wall;
        self.waited += span.waited;
    }

    /// The sums, with the run's whole wall time.
    pub fn times(&self, total: std::time::Duration) -> WallTimes {
        let seconds = |kinds: &[JobKind]| {
            kinds.iter().filter_map(|kind| self.worked.get(kind)).sum::<u64>() as f64 / 1e9
        };
        WallTimes {
            total_s: total.as_secs_f64(),
            train_s: seconds(&[JobKind::Train]),
            evaluate_s: seconds(&[JobKind::Evaluate]),
            server_s: seconds(&[JobKind::Fold, JobKind::Server, JobKind::Bias]),
            codec_s: seconds(&[JobKind::Codec]),
            wait_s: self.waited as f64 / 1e9,
        }
    }
}
