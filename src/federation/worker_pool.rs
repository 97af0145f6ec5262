//! Device workers: a few OS threads that compute, fed by channels.
//!
//! Jobs are pure: a result depends on the job's input, never on which worker ran it or when. So the number of workers
//! changes waiting and nothing else. Work that frees memory or that all actors wait for (aggregation, server steps,
//! evaluation) goes before training, which has an [order](JobOrder). Tests and training may be done by [other ranks](super::remote) as well.
//!
//! Jobs are handed to the workers in batches: waking a thread costs more than a small job. A caller that posts jobs
//! hands them over before it waits for an answer.
//!
//! The *shaker* is a test mode: workers take jobs out of order and finish them late, at random. No
//! digest may move.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use rand::RngCore;

use super::guard::guard;
use super::job_queue::{JobOrder, JobReceiver, JobSender, job_queue};
use super::memory_semaphore::{self, MemorySemaphore};
use super::remote::{Dispatcher, Queues, RemoteJob, RemoteRanks};
use super::sink::{JobKind, ProfileSink};
use super::timesheet::{FinishedJob, SharedProfile, Timesheet, take_parts};
use crate::numerics::distributions::below;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::RunContext;

/// Work of a job.
pub enum Work {
    /// Work that only a worker of this process can do.
    Local(Box<dyn FnOnce(&RunContext) + Send>),
    /// Work that another rank may do as well.
    Remote(Box<dyn RemoteJob>),
}

impl Work {
    /// Runs the work on the calling thread.
    pub fn run(self, ctx: &RunContext) {
        match self {
            Work::Local(work) => work(ctx),
            Work::Remote(remote_job) => remote_job.run(ctx),
        }
    }
}

/// The workers of a run, and other ranks where it has some. Dropping it lets running jobs end and forgets waiting ones.
pub struct WorkerPool {
    urgent: Option<Sender<Job>>,
    testing: Option<Sender<Job>>,
    training: Option<JobSender<Job>>,
    dispatcher: Option<Dispatcher>,
    /// Jobs that were submitted and not handed to the workers yet.
    posted: Vec<Job>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    timesheet: Timesheet,
}

/// Number of jobs that are handed over together.
const BATCH: usize = 16;

pub(super) struct Job {
    pub kind: JobKind,
    /// Position among the waiting training jobs.
    pub order: JobOrder,
    pub requested_at: Instant,
    pub work: Work,
}

impl WorkerPool {
    /// Starts a thread for each context, and one that takes jobs to the ranks of a fleet.
    pub fn start(
        contexts: Vec<RunContext>,
        shaker: Option<u64>,
        profile: Box<dyn ProfileSink>,
        fleet: Option<RemoteRanks>,
    ) -> std::io::Result<WorkerPool> {
        let (urgent, urgent_jobs) = unbounded();
        let (testing, testing_jobs) = unbounded();
        let (training, training_jobs) = job_queue();
        let queues = Queues {
            urgent: urgent.clone(),
            testing: (testing.clone(), testing_jobs.clone()),
            training: (training.clone(), training_jobs.clone()),
            workers: contexts.len(),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let profile: SharedProfile = Arc::new(Mutex::new(profile));
        let semaphores = MemorySemaphore::of(&contexts);
        let threads = contexts
            .into_iter()
            .zip(semaphores)
            .enumerate()
            .map(|(index, (ctx, semaphore))| {
                let worker = Worker {
                    index,
                    ctx,
                    semaphore,
                    urgent: urgent_jobs.clone(),
                    testing: testing_jobs.clone(),
                    training: training_jobs.clone(),
                    stop: Arc::clone(&stop),
                    profile: Arc::clone(&profile),
                };
                let name = format!("worker-{index}");
                std::thread::Builder::new().name(name).spawn(move || match shaker {
                    None => worker.run(),
                    Some(seed) => worker.run_shaken(seed),
                })
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        let dispatcher = fleet.map(|fleet| Dispatcher::start(fleet, queues)).transpose()?;
        Ok(WorkerPool {
            urgent: Some(urgent),
            testing: Some(testing),
            training: Some(training),
            dispatcher,
            posted: Vec::with_capacity(BATCH),
            stop,
            threads,
            timesheet: Timesheet::new(None, &profile),
        })
    }

    /// Submits a job, which is handed to the workers by the next [`WorkerPool::flush`] at the latest.
    ///
    /// A panic ends only the job.
    pub fn submit(&mut self, kind: JobKind, work: Work) {
        self.post(kind, JobOrder::default(), work);
    }

    /// Submits a training job; the first waiting one in this order is taken next.
    pub fn submit_training(&mut self, order: JobOrder, work: Work) {
        self.post(JobKind::Train, order, work);
    }

    fn post(&mut self, kind: JobKind, order: JobOrder, work: Work) {
        self.posted.push(Job { kind, order, requested_at: Instant::now(), work });
        if self.posted.len() >= BATCH {
            self.flush();
        }
    }

    /// Hands the submitted jobs to the workers.
    pub fn flush(&mut self) {
        for job in self.posted.drain(..) {
            // Sending fails only if all workers have ended, which they do after this is dropped.
            let _ = match (job.kind, &job.work) {
                (JobKind::Train, _) => {
                    self.training.as_ref().map(|queue| queue.send(job.order, job).is_ok())
                }
                (_, Work::Remote(_)) => self.testing.as_ref().map(|queue| queue.send(job).is_ok()),
                (_, Work::Local(_)) => self.urgent.as_ref().map(|queue| queue.send(job).is_ok()),
            };
        }
    }

    /// Notes time that the submitting thread spent.
    pub fn spent(&mut self, kind: JobKind, time: Duration) {
        self.timesheet.spent(kind, time);
    }

    /// Drops waiting jobs and lets running ones end by themselves.
    pub fn abandon(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.clear();
        if let Some(dispatcher) = self.dispatcher.take() {
            dispatcher.abandon();
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        // The dispatcher holds senders of all queues, which would otherwise stay open.
        self.dispatcher = None;
        self.urgent = None;
        self.testing = None;
        self.training = None;
        for thread in self.threads.drain(..) {
            // Jobs catch their own panics.
            let _ = thread.join();
        }
    }
}

struct Worker {
    index: usize,
    ctx: RunContext,
    /// Memory semaphore of the worker's GPU; `None` on the CPU.
    semaphore: Option<Arc<MemorySemaphore>>,
    urgent: Receiver<Job>,
    testing: Receiver<Job>,
    training: JobReceiver<Job>,
    stop: Arc<AtomicBool>,
    profile: SharedProfile,
}

impl Worker {
    fn run(&self) {
        let mut timesheet = self.timesheet();
        while let Some(job) = self.next() {
            self.execute(job, &mut timesheet);
        }
    }

    /// Binds the thread of a worker to its GPU and returns its timesheet.
    fn timesheet(&self) -> Timesheet {
        memory_semaphore::work_behind(self.semaphore.clone());
        Timesheet::new(Some(self.index), &self.profile)
    }

    /// Returns the next job, urgent ones first; `None` after the last one.
    fn next(&self) -> Option<Job> {
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            match self.urgent.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    return self.testing.recv().or_else(|_| self.training.recv()).ok();
                }
            }
            crossbeam_channel::select_biased! {
                recv(self.urgent) -> job => if let Ok(job) = job { return Some(job) },
                recv(self.testing) -> job => if let Ok(job) = job { return Some(job) },
                recv(self.training.tokens()) -> token => if token.is_ok()
                    && let Some(job) = self.training.take() { return Some(job) },
            }
        }
    }

    fn execute(&self, job: Job, timesheet: &mut Timesheet) {
        let Job { kind, requested_at, work, .. } = job;
        let started = Instant::now();
        let admitted = match kind {
            JobKind::Evaluate | JobKind::Server | JobKind::Bias => {
                memory_semaphore::acquire(kind, 1)
            }
            // A pack acquires the semaphore at each attempt; other jobs need no GPU.
            _ => None,
        };
        let _ = guard(|| work.run(&self.ctx));
        drop(admitted);
        timesheet.job(FinishedJob { kind, requested_at, started, parts: take_parts() });
    }

    fn run_shaken(&self, seed: u64) {
        let mut rng =
            StreamKey::new(seed, Domain::Fault).unit(self.index as u32).step(u64::MAX).rng();
        let mut timesheet = self.timesheet();
        let mut held: Vec<Job> = Vec::new();
        loop {
            let more = if held.is_empty() { self.next() } else { self.next_at_once() };
            held.extend(more);
            if held.is_empty() {
                return;
            }
            // Holding up to three jobs lets later ones overtake.
            if held.len() < 3 && rng.next_u32().is_multiple_of(2) && !self.training.is_empty() {
                continue;
            }
            let pick = below(&mut rng, held.len() as u64) as usize;
            std::thread::sleep(Duration::from_micros(below(&mut rng, 1500)));
            self.execute(held.swap_remove(pick), &mut timesheet);
        }
    }

    fn next_at_once(&self) -> Option<Job> {
        let testing = || self.testing.try_recv().or_else(|_| self.urgent.try_recv());
        self.training.try_recv().or_else(|_| testing()).ok()
    }
}
