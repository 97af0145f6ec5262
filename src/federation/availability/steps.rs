//! Availability by independent time steps, each drawn from its own stream.

use crate::numerics::distributions::chance;
use crate::numerics::streams::StreamKey;
use crate::quantity::VirtualTime;

/// Daily cycle of the probability to be on. Times in seconds.
pub(super) struct Day {
    pub period: f64,
    pub mean: f64,
    pub depth: f64,
}

impl Day {
    pub fn share(&self, seconds: f64, phase: f64) -> f64 {
        let turn = 2.0 * std::f64::consts::PI * (seconds / self.period + phase);
        self.mean + self.depth * libm::sin(turn)
    }
}

/// Number of time steps that are searched before a state is taken as impossible.
const PATIENCE: u64 = 1_000_000;

/// Returns the first time from `at` on when the client is `wanted`.
///
/// `share` is the probability to be on in the time step around a moment in seconds.
pub(super) fn next(
    key: StreamKey,
    step: f64,
    share: impl Fn(f64) -> f64,
    at: VirtualTime,
    wanted: bool,
) -> Option<VirtualTime> {
    let length = VirtualTime::from_seconds(step).0.max(1);
    let first = at.0 / length;
    let found = (first..first.saturating_add(PATIENCE)).find(|number| {
        let middle = (*number as f64 + 0.5) * step;
        chance(&mut key.step(number + 1).rng(), share(middle)) == wanted
    })?;
    Some(at.max(VirtualTime(found.saturating_mul(length))))
}
