//! Admission of concurrent jobs to a GPU: as many as its memory holds, by measured jobs of their kind.
//!
//! The first job of a kind runs alone and is measured. From then on a job enters when its expected memory fits in
//! addition to that of the jobs inside; a pack is expected to take as much per member as the first one did. One job
//! always fits. The estimate can be wrong; a pack that finds the memory full is then [tried again in
//! halves](super::retry).
//!
//! Workers of a CPU have no semaphore: every job enters.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::DeviceLocation;

use super::sink::JobKind;
use super::timesheet::count_as;
use crate::model::GpuMemory;
use crate::policy::RunContext;

/// Source of measurements of a device's memory.
trait Gauge: Send + Sync {
    /// Returns the bytes that are free; the peak counts from here on.
    fn begin(&self) -> Option<u64>;
    /// Returns the peak of the bytes taken since [`begin`](Gauge::begin).
    fn grown(&self) -> Option<u64>;
}

/// Semaphore of one GPU, which admits jobs by the memory they are expected to take.
pub(super) struct MemorySemaphore {
    gauge: Box<dyn Gauge>,
    state: Mutex<SemaphoreState>,
    left: Condvar,
}

#[derive(Default)]
struct SemaphoreState {
    running: usize,
    /// True if the admitted job must stay alone.
    alone: bool,
    /// Bytes that the admitted jobs are expected to take.
    expected: u64,
    /// Free bytes when the last measured job began.
    free: u64,
    /// Bytes that a job of a kind takes for each of its members, as measured.
    each: BTreeMap<JobKind, u64>,
}

impl SemaphoreState {
    /// Returns true if a job that is expected to take `bytes` may start; `None` means unknown.
    fn has_room(&self, bytes: Option<u64>) -> bool {
        // A tenth stays free, for what is not allocated as tensors.
        let fits = |bytes: u64| self.expected.saturating_add(bytes) <= self.free / 10 * 9;
        self.running == 0 || (!self.alone && bytes.is_some_and(fits))
    }
}

/// Admission of one job, which ends when this is dropped.
pub(super) struct MemoryPermit {
    semaphore: Arc<MemorySemaphore>,
    bytes: u64,
    /// Kind and number of members of the job, if it is measured.
    measured: Option<(JobKind, u64)>,
}

thread_local! {
    /// Semaphore of the GPU that this thread works on; `None` on the CPU.
    static SEMAPHORE: RefCell<Option<Arc<MemorySemaphore>>> = const { RefCell::new(None) };
}

/// Binds this thread to the memory semaphore of its GPU.
pub(super) fn work_behind(semaphore: Option<Arc<MemorySemaphore>>) {
    SEMAPHORE.set(semaphore);
}

/// Waits until there is room for a job of `members` members on the GPU of this thread.
pub(super) fn acquire(kind: JobKind, members: usize) -> Option<MemoryPermit> {
    let semaphore = SEMAPHORE.with_borrow(Clone::clone)?;
    Some(count_as(JobKind::Idle, || semaphore.acquire(kind, members as u64)))
}

/// Waits until no other job computes on the GPU of this thread.
pub(super) fn acquire_exclusive() -> Option<MemoryPermit> {
    let semaphore = SEMAPHORE.with_borrow(Clone::clone)?;
    Some(count_as(JobKind::Idle, || semaphore.acquire_exclusive()))
}

impl MemorySemaphore {
    /// Returns the semaphore of each context's GPU, shared by the contexts on it; `None` on the CPU.
    pub fn of(contexts: &[RunContext]) -> Vec<Option<Arc<MemorySemaphore>>> {
        let mut semaphores: Vec<(DeviceLocation, Arc<MemorySemaphore>)> = Vec::new();
        let semaphore = |ctx: &RunContext| {
            let memory = GpuMemory::of(&ctx.device)?;
            let here = ctx.device.location();
            if let Some((_, semaphore)) = semaphores.iter().find(|(location, _)| *location == here)
            {
                return Some(Arc::clone(semaphore));
            }
            let start = Mutex::new(0);
            let new = Arc::new(MemorySemaphore::new(Box::new(Measured { memory, start })));
            semaphores.push((here, Arc::clone(&new)));
            Some(new)
        };
        contexts.iter().map(semaphore).collect()
    }

    fn new(gauge: Box<dyn Gauge>) -> MemorySemaphore {
        MemorySemaphore { gauge, state: Mutex::default(), left: Condvar::new() }
    }

    fn acquire(self: &Arc<Self>, kind: JobKind, members: u64) -> MemoryPermit {
        let bytes = |state: &SemaphoreState| Some(state.each.get(&kind)?.saturating_mul(members));
        let mut state = self.wait_until(|state| state.has_room(bytes(state)));
        let bytes = bytes(&state);
        state.running += 1;
        if let Some(bytes) = bytes {
            state.expected = state.expected.saturating_add(bytes);
        } else {
            state.alone = true;
            // What cannot be measured runs one by one.
            state.free = self.gauge.begin().unwrap_or(0);
        }
        let measured = bytes.is_none().then_some((kind, members));
        MemoryPermit { semaphore: Arc::clone(self), bytes: bytes.unwrap_or(0), measured }
    }

    fn acquire_exclusive(self: &Arc<Self>) -> MemoryPermit {
        let mut state = self.wait_until(|state| state.running == 0);
        state.running = 1;
        state.alone = true;
        MemoryPermit { semaphore: Arc::clone(self), bytes: 0, measured: None }
    }

    fn wait_until(
        &self,
        ready: impl Fn(&SemaphoreState) -> bool,
    ) -> MutexGuard<'_, SemaphoreState> {
        let mut state = self.lock();
        while !ready(&state) {
            self.left.wait(&mut state);
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, SemaphoreState> {
        self.state.lock()
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        let mut state = self.semaphore.lock();
        state.running -= 1;
        state.alone = false;
        state.expected = state.expected.saturating_sub(self.bytes);
        if let Some((kind, members)) = self.measured {
            let grown = self.semaphore.gauge.grown().unwrap_or(u64::MAX);
            state.each.insert(kind, grown.div_ceil(members.max(1)));
        }
        self.semaphore.left.notify_all();
    }
}

struct Measured {
    memory: GpuMemory,
    /// Bytes of tensors when the measured job began.
    start: Mutex<u64>,
}

impl Gauge for Measured {
    fn begin(&self) -> Option<u64> {
        self.memory.forget_peak().ok()?;
        *self.start.lock() = self.memory.used().ok()?;
        self.memory.free().ok()
    }

    fn grown(&self) -> Option<u64> {
        let start = *self.start.lock();
        self.memory.peak().ok().map(|peak| peak.saturating_sub(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// A memory with so much free, and what the measured job took of it.
    struct Fixed {
        free: Option<u64>,
        grown: Option<u64>,
    }

    impl Gauge for Fixed {
        fn begin(&self) -> Option<u64> {
            self.free
        }
        fn grown(&self) -> Option<u64> {
            self.grown
        }
    }

    fn semaphore(free: Option<u64>, grown: Option<u64>) -> Arc<MemorySemaphore> {
        Arc::new(MemorySemaphore::new(Box::new(Fixed { free, grown })))
    }

    /// Returns the maximum of concurrent jobs, of twelve jobs of `members` members by six workers.
    ///
    /// A first job of four members was measured before.
    fn most_at_once(free: Option<u64>, grown: Option<u64>, members: u64) -> usize {
        let semaphore = semaphore(free, grown);
        drop(semaphore.acquire(JobKind::Train, 4));
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..2 {
                        let _admitted = semaphore.acquire(JobKind::Train, members);
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(20));
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        most.into_inner()
    }

    #[test]
    fn as_many_run_as_were_measured_to_fit() {
        assert_eq!(most_at_once(Some(1_000), Some(400), 4), 2);
        assert_eq!(most_at_once(Some(1_000), Some(400), 8), 1, "twice as many members");
        assert!(most_at_once(Some(1_000), Some(400), 1) > 2, "a quarter of the members");
        assert_eq!(most_at_once(Some(1_000), Some(5_000), 4), 1, "one always runs");
        assert_eq!(most_at_once(None, Some(1), 4), 1, "what cannot be measured runs one by one");
        assert_eq!(most_at_once(Some(1_000), None, 4), 1);
    }

    /// Returns true if a job of `kind` enters while `inside` is inside.
    fn enters_with(semaphore: &Arc<MemorySemaphore>, inside: MemoryPermit, kind: JobKind) -> bool {
        let entered = AtomicUsize::new(0);
        let has_entered = std::thread::scope(|scope| {
            scope.spawn(|| {
                let _second = semaphore.acquire(kind, 1);
                entered.fetch_add(1, Ordering::SeqCst);
            });
            std::thread::sleep(Duration::from_millis(30));
            let has_entered = entered.load(Ordering::SeqCst) == 1;
            drop(inside);
            has_entered
        });
        assert_eq!(entered.into_inner(), 1, "in the end all threads enter");
        has_entered
    }

    #[test]
    fn the_first_of_a_kind_and_exclusive_jobs_run_alone() {
        let semaphore = semaphore(Some(100), Some(10));
        assert!(
            !enters_with(&semaphore, semaphore.acquire(JobKind::Train, 1), JobKind::Train),
            "measured"
        );
        assert!(enters_with(&semaphore, semaphore.acquire(JobKind::Train, 1), JobKind::Train));
        assert!(
            !enters_with(&semaphore, semaphore.acquire(JobKind::Train, 1), JobKind::Evaluate),
            "new"
        );
        assert!(enters_with(&semaphore, semaphore.acquire(JobKind::Train, 1), JobKind::Evaluate));
        assert!(!enters_with(&semaphore, semaphore.acquire_exclusive(), JobKind::Train));
    }

    #[test]
    fn a_cpu_has_no_semaphore() {
        assert!(acquire(JobKind::Train, 4).is_none() && acquire_exclusive().is_none());
        work_behind(Some(semaphore(Some(100), Some(10))));
        assert!(acquire(JobKind::Train, 4).is_some());
        work_behind(None);
    }
}
