//! Wall time of a run by kind of work: `profile.jsonl` and its sums. Not part of the digests.
//!
//! A line is one [`Span`]: `{"job":"train","worker":0,"waited":1200,"wall":84000}`, times in nanoseconds.
//! `worker` is `null` for the event loop, the thread that decides what happens when and writes the
//! journal. `waited` is how long a job stood in the queue. Jobs are `train`, `evaluate`, `codec`, `aggregate`,
//! `server`, `bias`, `retry` (a pack that found the memory of its device full) and `snapshot` (a checkpoint of the
//! event loop), each on its own line; `idle` (a worker without a job, the event loop without an answer) and
//! `journal` come often and are added up to lines of at least a millisecond.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::experiment::{DirectoryError, RunDirectory, names, peak_memory_mb};
use crate::federation::{Entry, Event, EventSink, JobKind, ProfileSink, SinkError, Span};
use crate::files::DiskFile;
use crate::learning::CacheCounts;
use crate::model::peak_gpu_memory_mb;

/// Seconds of wall time by kind of work.
///
/// Those of the workers add up to `workers * total_s` except for their start and end; those of the event loop to
/// `total_s` except for its own decisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, Document)]
pub struct WallTimes {
    /// Wall time of the run; no key of `wall` is written by a replay.
    pub total_s: f64,
    /// Workers that did any work.
    pub workers: usize,
    /// Workers: local training.
    pub train_s: f64,
    /// Workers: training that was stopped for lack of device memory.
    ///
    /// The training was repeated with fewer clients.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_s: f64,
    /// Number of times that training was stopped and repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// Workers: tests of the global model.
    pub evaluate_s: f64,
    /// Workers: packing, coding, measuring and digesting of messages.
    pub codec_s: f64,
    /// Workers: checking and aggregation of uploads.
    pub aggregate_s: f64,
    /// Workers: the server's own training, and comparison of client models.
    pub server_s: f64,
    /// Workers: waiting for jobs.
    pub wait_s: f64,
    /// Event loop: journal and tables.
    pub journal_s: f64,
    /// Event loop: checkpoints.
    #[serde(default)]
    pub checkpoint_s: f64,
    /// Event loop: waiting for answers of workers.
    pub event_loop_wait_s: f64,
    /// Largest resident memory of the process, where the system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_mb: Option<f64>,
    /// Largest memory of tensors on one GPU, in runs on GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_gpu_memory_mb: Option<f64>,
    /// Wall time of each task, tests included.
    ///
    /// Tasks that a resumed run only read from its journal took almost no time.
    #[serde(default)]
    pub by_task_s: Vec<f64>,
    /// Use of the feature cache; its seconds are part of training and evaluation.
    pub cache: CacheCounts,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// Sums spans and writes them to `profile.jsonl`.
pub struct Profile {
    out: BufWriter<DiskFile>,
    /// Nanoseconds by kind of work, for workers (`true`) and the event loop.
    spent: BTreeMap<(bool, JobKind), u64>,
    workers: BTreeSet<usize>,
    retries: u64,
}

impl Profile {
    /// Creates the file in a run directory.
    pub fn create(directory: &RunDirectory) -> Result<Profile, DirectoryError> {
        let out = BufWriter::new(directory.append(names::PROFILE)?);
        Ok(Profile { out, spent: BTreeMap::new(), workers: BTreeSet::new(), retries: 0 })
    }

    /// Returns the sums, with the wall time of the run and of its tasks, and the use of its cache.
    pub fn times(&mut self, total: Duration, tasks: &TaskClock, cache: CacheCounts) -> WallTimes {
        // Wall times are no result: losing some of them must not fail a run.
        let _ = self.out.flush();
        let of = |worker, kind| self.spent.get(&(worker, kind)).map_or(0.0, |ns| *ns as f64 / 1e9);
        let workers = |kind| of(true, kind);
        WallTimes {
            total_s: total.as_secs_f64(),
            workers: self.workers.len(),
            train_s: workers(JobKind::Train),
            retry_s: workers(JobKind::Retry),
            retries: (self.retries > 0).then_some(self.retries),
            evaluate_s: workers(JobKind::Evaluate),
            codec_s: workers(JobKind::Codec),
            aggregate_s: workers(JobKind::Aggregate),
            server_s: workers(JobKind::Server) + workers(JobKind::Bias),
            wait_s: workers(JobKind::Idle),
            journal_s: of(false, JobKind::Journal),
            checkpoint_s: of(false, JobKind::Snapshot),
            event_loop_wait_s: of(false, JobKind::Idle),
            peak_memory_mb: peak_memory_mb(),
            peak_gpu_memory_mb: peak_gpu_memory_mb(),
            by_task_s: tasks.seconds.clone(),
            cache,
        }
    }
}

/// Measures the wall time of tasks.
#[derive(Clone, Debug)]
pub struct TaskClock {
    began: Instant,
    seconds: Vec<f64>,
}

impl Default for TaskClock {
    fn default() -> TaskClock {
        TaskClock { began: Instant::now(), seconds: Vec::new() }
    }
}

impl EventSink for TaskClock {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        match entry.event {
            Event::TaskStarted { .. } => self.began = Instant::now(),
            Event::TaskEnded { .. } => self.seconds.push(self.began.elapsed().as_secs_f64()),
            _ => {}
        }
        Ok(())
    }
}

impl ProfileSink for Profile {
    fn record(&mut self, span: &Span) {
        *self.spent.entry((span.worker.is_some(), span.job)).or_default() += span.wall;
        self.workers.extend(span.worker);
        self.retries += u64::from(span.job == JobKind::Retry);
        if serde_json::to_writer(&mut self.out, span).is_ok() {
            let _ = self.out.write_all(b"\n");
        }
    }
}
