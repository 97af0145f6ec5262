//! Long work on a thread without the GIL, supervised by the thread that called from Python.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fedcast::federation::Interrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::Failure;

/// Interval at which Python's signals are checked.
const LOOK: Duration = Duration::from_millis(50);

/// Stack size of the thread, which equals that of a main thread.
const STACK: usize = 16 << 20;

/// Report for a Python callable.
pub trait Report: Send {
    /// Returns the dictionary that is passed to the callable.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>>;
}

/// Callable of the user, and the reports for it.
pub struct Audience<R> {
    pub reports: Mutex<Receiver<R>>,
    pub callback: Option<Py<PyAny>>,
}

/// Runs `work` on a separate thread without the GIL, and calls back with its reports.
///
/// Ctrl-C and an exception of the callback request `interrupt`, wait for the end of the work and are then raised. The
/// sender of the reports must be dropped with `work`.
///
/// # Errors
/// Fails with the exception of a signal or of the callback, or with that of the failure.
pub fn attend<T: Send, R: Report>(
    py: Python<'_>,
    interrupt: &Interrupt,
    audience: Audience<R>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let (ended, raised) = py.detach(|| {
        thread::scope(|scope| {
            let work = || catch_unwind(AssertUnwindSafe(work));
            let worker = thread::Builder::new().name("fedcast".into()).stack_size(STACK);
            let worker = worker.spawn_scoped(scope, work);
            let worker = match worker {
                Ok(worker) => worker,
                Err(error) => {
                    let failure = Failure::usage(format!("cannot start a thread: {error}"));
                    return (Err(failure), None);
                }
            };
            let raised = watch(&audience, interrupt);
            let ended = worker.join().unwrap_or_else(Err);
            (ended.unwrap_or_else(|panic| Err(Failure::panicked(&*panic))), raised)
        })
    });
    match raised {
        Some(error) => Err(error),
        None => ended.map_err(|failure| failure.to_exception(py)),
    }
}

/// Runs short work without the GIL; a panic in it is a failure.
///
/// # Errors
/// Fails with the exception of the failure.
pub fn without_gil<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let ended = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    let ended = ended.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)));
    ended.map_err(|failure| failure.to_exception(py))
}

/// Passes reports on until the work has ended; returns the first exception.
fn watch<R: Report>(audience: &Audience<R>, interrupt: &Interrupt) -> Option<PyErr> {
    // No other thread receives; the lock only makes the receiver shareable between threads.
    let reports = audience.reports.lock().unwrap_or_else(PoisonError::into_inner);
    let mut raised = None;
    loop {
        let report = match reports.recv_timeout(LOOK) {
            Ok(report) => Some(report),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return raised,
        };
        if raised.is_some() {
            continue;
        }
        let answer = Python::attach(|py| {
            if let (Some(report), Some(callback)) = (report, &audience.callback) {
                callback.call1(py, (report.to_dict(py)?,))?;
            }
            py.check_signals()
        });
        if let Err(error) = answer {
            interrupt.request();
            raised = Some(error);
        }
    }
}
