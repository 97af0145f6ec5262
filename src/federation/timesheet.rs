//! Timesheet of one thread: the time that it spends, collected for the profile.
//!
//! Jobs are noted one by one. Spans that are much shorter and much more frequent (waiting, notifying the recorder) are
//! added up to spans of at least a millisecond. Spans are handed over in batches of some number or of some time, so
//! that threads hardly ever meet at the profile and a run that is interrupted loses next to nothing.

use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sink::{JobKind, ProfileSink, Span};

/// Profile that all threads share.
pub(super) type SharedProfile = Arc<Mutex<Box<dyn ProfileSink>>>;

/// Job that a worker has finished.
pub(super) struct FinishedJob {
    pub kind: JobKind,
    pub requested_at: Instant,
    pub started: Instant,
    /// Kind and nanoseconds of parts that are counted under another kind.
    pub parts: Vec<(JobKind, u64)>,
}

/// Spans of one thread that were not handed to the profile yet; the rest is when it is dropped.
pub(super) struct Timesheet {
    worker: Option<usize>,
    profile: SharedProfile,
    spans: Vec<Span>,
    /// Sum of the spans in nanoseconds.
    unreported: u64,
    short: BTreeMap<JobKind, u64>,
    /// Time up to which the worker's time is accounted for.
    accounted: Instant,
}

const BATCH: usize = 64;
const LONG: u64 = 10_000_000;
const SHORT: u64 = 1_000_000;

impl Timesheet {
    /// Creates an empty account of a worker, or of the event loop.
    pub fn new(worker: Option<usize>, profile: &SharedProfile) -> Timesheet {
        Timesheet {
            worker,
            profile: Arc::clone(profile),
            spans: Vec::with_capacity(BATCH),
            unreported: 0,
            short: BTreeMap::new(),
            accounted: Instant::now(),
        }
    }

    /// Notes a job that ends now, and the worker's idle time since the job before.
    pub fn job(&mut self, job: FinishedJob) {
        let now = Instant::now();
        self.spent(JobKind::Idle, job.started.saturating_duration_since(self.accounted));
        self.accounted = now;
        let whole = nanos(now.duration_since(job.started));
        let elsewhere: u64 = job.parts.iter().map(|(_, wall)| wall).sum();
        let waited = nanos(job.started.saturating_duration_since(job.requested_at));
        self.note(job.kind, waited, whole.saturating_sub(elsewhere));
        for (kind, wall) in job.parts {
            self.note(kind, 0, wall);
        }
    }

    /// Adds a short span to the sum of its kind.
    pub fn spent(&mut self, kind: JobKind, time: Duration) {
        let sum = self.short.entry(kind).or_default();
        *sum += nanos(time);
        if *sum >= SHORT {
            let wall = std::mem::take(sum);
            self.note(kind, 0, wall);
        }
    }

    fn note(&mut self, job: JobKind, waited: u64, wall: u64) {
        self.spans.push(Span { job, worker: self.worker, waited, wall });
        self.unreported += wall;
        if self.spans.len() >= BATCH || self.unreported >= LONG {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        self.unreported = 0;
        let mut profile = self.profile.lock();
        self.spans.drain(..).for_each(|span| profile.record(&span));
    }
}

impl Drop for Timesheet {
    fn drop(&mut self) {
        if self.worker.is_some() {
            self.spent(JobKind::Idle, self.accounted.elapsed());
        }
        for (kind, wall) in std::mem::take(&mut self.short) {
            if wall > 0 {
                self.note(kind, 0, wall);
            }
        }
        self.hand_over();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

thread_local! {
    /// Kind and nanoseconds of parts of the current job that are counted under another kind.
    static PARTS: RefCell<Vec<(JobKind, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Runs a part of a job and counts its time under another kind than the job's.
pub(super) fn count_as<T>(kind: JobKind, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let answer = work();
    note_part(kind, started);
    answer
}

/// Counts the time since `started`, in the current job, under another kind than the job's.
pub(super) fn note_part(kind: JobKind, started: Instant) {
    let wall = nanos(started.elapsed());
    PARTS.with_borrow_mut(|parts| parts.push((kind, wall)));
}

/// Takes the parts of the current job.
pub(super) fn take_parts() -> Vec<(JobKind, u64)> {
    PARTS.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct SpanLog(Arc<Mutex<Vec<Span>>>);

    impl ProfileSink for SpanLog {
        fn record(&mut self, span: &Span) {
            self.0.lock().push(*span);
        }
    }

    /// A run that is interrupted does not wait for its workers' last batches.
    #[test]
    fn a_long_job_is_handed_over_at_once() {
        let kept = SpanLog::default();
        let profile: SharedProfile = Arc::new(Mutex::new(Box::new(kept.clone())));
        let mut sheet = Timesheet::new(Some(0), &profile);
        sheet.note(JobKind::Train, 0, LONG - 1);
        assert!(kept.0.lock().is_empty());
        sheet.note(JobKind::Train, 0, 1);
        assert_eq!(kept.0.lock().len(), 2);
    }

    #[test]
    fn a_worker_s_spans_add_up_to_its_life() {
        let kept = SpanLog::default();
        let profile: SharedProfile = Arc::new(Mutex::new(Box::new(kept.clone())));
        let born = Instant::now();
        let mut sheet = Timesheet::new(Some(0), &profile);
        for _ in 0..5 {
            let requested_at = Instant::now();
            std::thread::sleep(Duration::from_millis(1));
            let started = Instant::now();
            std::thread::sleep(Duration::from_millis(2));
            let parts = vec![(JobKind::Codec, 500_000)];
            sheet.job(FinishedJob { kind: JobKind::Train, requested_at, started, parts });
        }
        drop(sheet);
        let life = nanos(born.elapsed());
        let spans = kept.0.lock();
        let sum: u64 = spans.iter().map(|span| span.wall).sum();
        assert!(sum <= life && life - sum < 1_000_000, "{sum} of {life}");
        let of = |kind| spans.iter().filter(move |span| span.job == kind);
        assert_eq!((of(JobKind::Train).count(), of(JobKind::Codec).count()), (5, 5));
        assert!(of(JobKind::Train).all(|span| span.waited >= 1_000_000));
        assert!(of(JobKind::Idle).map(|span| span.wall).sum::<u64>() >= 5_000_000);
    }
}
