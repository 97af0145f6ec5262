//! Where the wall time of a run went: `profile.jsonl` and its sums. Outside both digests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::experiment::{DirectoryError, RunDirectory, names};
use crate::federation::{JobKind, ProfileSink, Span};

/// Seconds of work by kind of job, summed over workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WallTimes {
    /// From the start of the run to its end.
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

/// Adds up spans and writes them down.
pub struct Profile {
    out: BufWriter<File>,
    worked: BTreeMap<JobKind, u64>,
    waited: u64,
}

impl Profile {
    /// Writes into a directory.
    pub fn create(directory: &RunDirectory) -> Result<Profile, DirectoryError> {
        let out = BufWriter::new(directory.append(names::PROFILE)?);
        Ok(Profile { out, worked: BTreeMap::new(), waited: 0 })
    }

    /// The sums, with the run's whole wall time.
    pub fn times(&mut self, total: Duration) -> WallTimes {
        // Wall times are a by-product: losing some of them must not fail a run.
        let _ = self.out.flush();
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

impl ProfileSink for Profile {
    fn record(&mut self, span: &Span) {
        *self.worked.entry(span.job).or_default() += span.wall;
        self.waited += span.waited;
        if serde_json::to_writer(&mut self.out, span).is_ok() {
            let _ = self.out.write_all(b"\n");
        }
    }
}
