//! Execution of cells as simultaneous processes, until all have ended or the study stops.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::child::{self, Ended};
use super::directory::{CellState, StudyDirectory};
use super::prepare::PreparedCell;
use super::{Limit, OnError, RunSection, Study};
use crate::experiment::DirectoryError;
use crate::federation::Interrupt;
use crate::scenario::DeviceName;

/// Processes and workers that run cells; they change no result.
#[derive(Clone, Debug)]
pub struct ProcessPool {
    /// Number of simultaneous processes.
    pub jobs: usize,
    /// Worker threads of each process; `None` means those of the scenario, as for GPUs.
    pub workers: Option<usize>,
    /// True to train every client task alone first, in cells whose clients have their own tasks.
    pub single_task: bool,
    /// Rule for the other cells when a cell fails.
    pub on_error: OnError,
    /// Limits of wall time and disk space at which the study stops.
    pub limit: Limit,
    /// Interrupt that stops the study, as Ctrl-C does.
    pub stop: Interrupt,
}

/// Event during the execution of a study.
#[derive(Debug)]
pub enum StudyEvent<'a> {
    /// The process of a cell is about to start.
    Started(&'a PreparedCell),
    /// The process of a cell ended, with this outcome and after this wall time.
    Ended(&'a PreparedCell, Ended, Duration),
    /// A cell is skipped because another process runs it or has finished it.
    Taken(&'a PreparedCell),
    /// Cells are running; sent about once a second.
    Running,
}

/// Reason why a study stopped before all cells had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Ctrl-C.
    Interrupted,
    /// `limit.wall`.
    Wall,
    /// `limit.disk`.
    Disk,
    /// `on_error = "stop"`.
    Error,
}

/// Interval at which limits are checked while nothing happens.
const LOOK: Duration = Duration::from_millis(50);
/// Interval of [`StudyEvent::Running`].
const PULSE: Duration = Duration::from_secs(1);
/// Interval at which the directory's size is measured.
const MEASURE: Duration = Duration::from_secs(10);

impl ProcessPool {
    /// Returns the pool for the cells of a study: `jobs` processes, or else those that the study sets.
    ///
    /// By default there is one process per core, or one alone if cells use GPUs.
    pub fn of(study: &Study, cells: &[PreparedCell], jobs: Option<u32>) -> ProcessPool {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let on_gpus = cells.iter().any(|prepared| {
            prepared.scenario.devices.names.iter().any(|device| *device != DeviceName::Cpu)
        });
        let auto = if on_gpus { 1 } else { cores.min(cells.len()).max(1) };
        let jobs = jobs.or(study.run.jobs).map_or(auto, |jobs| jobs as usize);
        let workers = (!on_gpus).then(|| (cores / jobs).max(1));
        let RunSection { on_error, limit, single_task, .. } = study.run;
        ProcessPool { jobs, workers, single_task, on_error, limit, stop: Interrupt::default() }
    }

    /// Runs the cells in this order and passes every event to `report`, on this thread.
    ///
    /// # Errors
    /// Fails if a cell's file next to its run cannot be written. Failed cells are events, not errors.
    pub fn execute(
        &self,
        cells: &[PreparedCell],
        directory: &StudyDirectory,
        mut report: impl FnMut(&StudyEvent<'_>) -> Result<(), DirectoryError>,
    ) -> Result<Option<StopReason>, DirectoryError> {
        let queue: Mutex<VecDeque<&PreparedCell>> = Mutex::new(cells.iter().collect());
        // `halt` interrupts running children, `closed` only keeps further ones from starting.
        let (halt, closed) = (Interrupt::default(), AtomicBool::new(false));
        let (send, news) = mpsc::channel();
        let began = Instant::now();
        let mut measured = None;
        let mut pulse = Instant::now();
        let mut reason = None;
        let mut failed = Ok(());
        thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                let (send, queue, halt, closed) = (send.clone(), &queue, &halt, &closed);
                scope.spawn(move || {
                    while let Some(prepared) = next(queue, closed) {
                        let failed = one(prepared, directory, self, halt, &send);
                        if failed && self.on_error == OnError::Stop {
                            closed.store(true, Ordering::SeqCst);
                        }
                    }
                });
            }
            drop(send);
            loop {
                let event = match news.recv_timeout(LOOK) {
                    Ok(event) => Some(event),
                    Err(mpsc::RecvTimeoutError::Timeout) if pulse.elapsed() >= PULSE => {
                        pulse = Instant::now();
                        Some(Ok(StudyEvent::Running))
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => None,
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                };
                let reported =
                    event.transpose().and_then(|event| event.as_ref().map_or(Ok(()), &mut report));
                if let Err(error) = reported {
                    halt.request();
                    closed.store(true, Ordering::SeqCst);
                    if failed.is_ok() {
                        failed = Err(error);
                    }
                }
                if let Some(why) = self.over(began, directory, &mut measured) {
                    reason.get_or_insert(why);
                    halt.request();
                    closed.store(true, Ordering::SeqCst);
                }
            }
        });
        failed?;
        let left = !queue.lock().is_empty();
        // Cells are left without an interrupt: a failure closed the queue.
        Ok(reason.or((left && closed.load(Ordering::SeqCst)).then_some(StopReason::Error)))
    }

    fn over(
        &self,
        began: Instant,
        directory: &StudyDirectory,
        measured: &mut Option<Instant>,
    ) -> Option<StopReason> {
        if self.stop.is_requested() {
            return Some(StopReason::Interrupted);
        }
        if self.limit.wall.is_some_and(|limit| began.elapsed() >= limit) {
            return Some(StopReason::Wall);
        }
        let limit = self.limit.disk?;
        if measured.is_none_or(|at| at.elapsed() >= MEASURE) {
            *measured = Some(Instant::now());
            return (directory.size() >= limit).then_some(StopReason::Disk);
        }
        None
    }
}

fn next<'a>(
    queue: &Mutex<VecDeque<&'a PreparedCell>>,
    closed: &AtomicBool,
) -> Option<&'a PreparedCell> {
    if closed.load(Ordering::SeqCst) {
        return None;
    }
    queue.lock().pop_front()
}

type StudyEventResult<'a> = Result<StudyEvent<'a>, DirectoryError>;

/// Runs a cell, unless another process does or did. Returns true if it failed.
fn one<'a>(
    prepared: &'a PreparedCell,
    directory: &StudyDirectory,
    pool: &ProcessPool,
    halt: &Interrupt,
    send: &mpsc::Sender<StudyEventResult<'a>>,
) -> bool {
    // Sending fails only when this process is about to end.
    let say = |news: StudyEventResult<'a>| {
        drop(send.send(news));
        false
    };
    let held = match directory.hold(&prepared.cell) {
        Ok(Some(held)) => held,
        Ok(None) => return say(Ok(StudyEvent::Taken(prepared))),
        Err(error) => return say(Err(error)),
    };
    let found = directory.found(&prepared.cell, &prepared.hash);
    if matches!(found, CellState::Done | CellState::Foreign(_)) {
        return say(Ok(StudyEvent::Taken(prepared)));
    }
    say(Ok(StudyEvent::Started(prepared)));
    let began = Instant::now();
    let ended = child::run(prepared, directory, pool, halt);
    drop(held);
    let failed = matches!(ended, Ok(Ended::Failed(_)));
    say(ended.map(|ended| StudyEvent::Ended(prepared, ended, began.elapsed())));
    failed
}
