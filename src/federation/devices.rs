//! Device workers: a few OS threads that compute, fed by channels.
//!
//! Jobs are pure: what they answer depends on what they were given, never on which worker ran them or
//! when. So the number of workers changes waiting and nothing else. Work that frees memory or that
//! everybody waits for (folding, server steps, evaluation) goes before training.
//!
//! The *shaker* is a test mode: workers take jobs out of order and finish them late, at random. No
//! digest may move.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use rand::RngCore;

use super::sink::{JobKind, ProfileSink, Span};
use crate::numerics::distributions::below;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::Lab;

/// A job as a worker runs it.
pub type Work = Box<dyn FnOnce(&Lab) + Send>;

/// The workers of a run. Dropping it lets running jobs end and forgets waiting ones.
pub struct Devices {
    urgent: Option<Sender<Job>>,
    training: Option<Sender<Job>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

struct Job {
    kind: JobKind,
    asked: Instant,
    work: Work,
}

impl Devices {
    /// Starts `workers` threads (at least one), each with a lab of its own.
    pub fn start(
        workers: usize,
        lab: &Lab,
        shaker: Option<u64>,
        profile: Box<dyn ProfileSink>,
    ) -> std::io::Result<Devices> {
        let (urgent, urgent_jobs) = unbounded();
        let (training, training_jobs) = unbounded();
        let stop = Arc::new(AtomicBool::new(false));
        let profile = Arc::new(Mutex::new(profile));
        let threads = (0..workers.max(1))
            .map(|index| {
                let worker = Worker {
                    index,
                    lab: lab.clone(),
                    urgent: urgent_jobs.clone(),
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
        Ok(Devices { urgent: Some(urgent), training: Some(training), stop, threads })
    }

    /// Queues a job. A panic ends the job only.
    pub fn post(&self, kind: JobKind, work: Work) {
        let queue = if kind == JobKind::Train { &self.training } else { &self.urgent };
        let job = Job { kind, asked: Instant::now(), work };
        if let Some(queue) = queue {
            // The receiving end lives as long as any worker; workers end after this is dropped.
            let _ = queue.send(job);
        }
    }

    /// Lets waiting jobs go and running ones end by themselves.
    pub fn abandon(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.clear();
    }
}

impl Drop for Devices {
    fn drop(&mut self) {
        self.urgent = None;
        self.training = None;
        for thread in self.threads.drain(..) {
            // Jobs catch their own panics.
            let _ = thread.join();
        }
    }
}

/// Runs `work`; a panic becomes its message.
pub fn guard<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message given")
            .to_string()
    })
}

thread_local! {
    /// Parts of the job at hand that are counted under another kind.
    static PARTS: RefCell<Vec<(JobKind, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Does a part of a job whose time is to be counted under another kind than the job's.
pub fn count_as<T>(kind: JobKind, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let answer = work();
    let wall = begun.elapsed().as_nanos() as u64;
    PARTS.with_borrow_mut(|parts| parts.push((kind, wall)));
    answer
}

struct Worker {
    index: usize,
    lab: Lab,
    urgent: Receiver<Job>,
    training: Receiver<Job>,
    stop: Arc<AtomicBool>,
    profile: Arc<Mutex<Box<dyn ProfileSink>>>,
}

impl Worker {
    fn run(&self) {
        while let Some(job) = self.next() {
            self.execute(job);
        }
    }

    /// The next job, urgent ones first; `None` when there will be none.
    fn next(&self) -> Option<Job> {
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            match self.urgent.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return self.training.recv().ok(),
            }
            crossbeam_channel::select_biased! {
                recv(self.urgent) -> job => if let Ok(job) = job { return Some(job) },
                recv(self.training) -> job => if let Ok(job) = job { return Some(job) },
            }
        }
    }

    fn execute(&self, job: Job) {
        let begun = Instant::now();
        let waited = begun.duration_since(job.asked).as_nanos() as u64;
        let lab = &self.lab;
        let _ = guard(move || (job.work)(lab));
        let whole = begun.elapsed().as_nanos() as u64;
        let parts = PARTS.take();
        let elsewhere: u64 = parts.iter().map(|(_, wall)| wall).sum();
        let own = whole.saturating_sub(elsewhere);
        let mut profile = self.profile.lock().unwrap_or_else(|e| e.into_inner());
        profile.record(&Span { job: job.kind, worker: self.index, waited, wall: own });
        for (job, wall) in parts {
            profile.record(&Span { job, worker: self.index, waited: 0, wall });
        }
    }

    fn run_shaken(&self, seed: u64) {
        let mut rng =
            StreamKey::new(seed, Domain::Fault).unit(self.index as u32).step(u64::MAX).rng();
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
            self.execute(held.swap_remove(pick));
        }
    }

    fn next_at_once(&self) -> Option<Job> {
        self.training.try_recv().or_else(|_| self.urgent.try_recv()).ok()
    }
}
