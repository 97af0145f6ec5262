//! Processor time of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time of all threads in user and kernel mode.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
