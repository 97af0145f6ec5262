//! Markov availability: on and off for exponential times, computed for any moment.
//!
//! The chain follows a Poisson process: at each of its points the state is drawn again, on with probability `on / (on +
//! off)`. With points at rate `1 / on + 1 / off` the states have the right mean lengths (uniformization, Jensen 1953).
//! The points of a cell of time are drawn from the cell's own stream, so the state at a moment needs the last point
//! before it and nothing else.

use crate::numerics::distributions::{chance, exponential};
use crate::numerics::streams::StreamKey;
use crate::quantity::VirtualTime;

/// Points in a cell, on average.
const POINTS: f64 = 4.0;

/// Returns the first time from `at` on when the client is `wanted`. Mean times in seconds.
pub(super) fn next(
    key: StreamKey,
    on: f64,
    off: f64,
    at: VirtualTime,
    wanted: bool,
) -> VirtualTime {
    let chain = Chain { key, on, off };
    if chain.state(at) == wanted {
        return at;
    }
    let mut cell = chain.cell_of(at);
    loop {
        let mut points = chain.points(cell).into_iter();
        if let Some((time, _)) = points.find(|(time, state)| *time > at && *state == wanted) {
            return time;
        }
        cell += 1;
    }
}

struct Chain {
    key: StreamKey,
    on: f64,
    off: f64,
}

impl Chain {
    /// Returns the mean time between points, in nanoseconds.
    fn gap(&self) -> f64 {
        1e9 * self.on * self.off / (self.on + self.off)
    }

    /// Returns the length of a cell, in nanoseconds.
    fn width(&self) -> u64 {
        ((POINTS * self.gap()) as u64).max(1)
    }

    fn cell_of(&self, at: VirtualTime) -> u64 {
        at.0 / self.width()
    }

    /// Times and states of a cell's points, in order.
    fn points(&self, cell: u64) -> Vec<(VirtualTime, bool)> {
        let start = cell.saturating_mul(self.width());
        let mut rng = self.key.step(cell + 1).rng();
        let (mut offset, mut points) = (0.0, Vec::new());
        loop {
            offset += exponential(&mut rng, self.gap());
            if offset >= self.width() as f64 {
                return points;
            }
            points.push((VirtualTime(start.saturating_add(offset as u64)), self.draw(&mut rng)));
        }
    }

    fn state(&self, at: VirtualTime) -> bool {
        let mut cell = self.cell_of(at);
        loop {
            if let Some((_, state)) = self.points(cell).iter().rev().find(|(time, _)| *time <= at) {
                return *state;
            }
            if cell == 0 {
                return self.draw(&mut self.key.rng());
            }
            cell -= 1;
        }
    }

    fn draw(&self, rng: &mut impl rand::RngCore) -> bool {
        chance(rng, self.on / (self.on + self.off))
    }
}
