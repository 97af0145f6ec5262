//! Progress of long work at the server, as a count of steps.
//!
//! The work writes it, and a progress display in another thread reads it; results do not depend on it.
//!
//! ```
//! use fedcast::learning::StepCount;
//!
//! let count = StepCount::default();
//! assert!(count.now().is_none(), "no work");
//! let work = count.begin("generator", 100);
//! work.step();
//! let now = count.now().expect("work");
//! assert_eq!((now.what, now.done, now.all), ("generator", 1, 100));
//! drop(work);
//! assert!(count.now().is_none(), "it ended");
//! assert_eq!(count.taken(), 1);
//! ```

use parking_lot::Mutex;

/// Step counts of the work in progress, and of all work so far.
#[derive(Debug, Default)]
pub struct StepCount(Mutex<StepCounts>);

#[derive(Debug, Default)]
struct StepCounts {
    now: Option<StepsSoFar>,
    taken: u64,
}

/// Work in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepsSoFar {
    /// Name of the work, such as `generator`.
    pub what: &'static str,
    /// Number of steps taken.
    pub done: u64,
    /// Number of all steps.
    pub all: u64,
}

/// Handle of work in progress. Dropping it ends the work.
#[derive(Debug)]
pub struct CountedWork<'a>(&'a StepCount);

impl StepCount {
    /// Begins work of `all` steps under this name.
    pub fn begin(&self, what: &'static str, all: u64) -> CountedWork<'_> {
        self.0.lock().now = Some(StepsSoFar { what, done: 0, all });
        CountedWork(self)
    }

    /// Returns the work in progress, if there is any.
    pub fn now(&self) -> Option<StepsSoFar> {
        self.0.lock().now
    }

    /// Returns the number of steps taken by all work so far.
    pub fn taken(&self) -> u64 {
        self.0.lock().taken
    }
}

impl CountedWork<'_> {
    /// Counts a step.
    pub fn step(&self) {
        let mut counted = self.0.0.lock();
        counted.taken += 1;
        if let Some(now) = &mut counted.now {
            now.done += 1;
        }
    }
}

impl Drop for CountedWork<'_> {
    fn drop(&mut self) {
        self.0.0.lock().now = None;
    }
}
