//! Units: random parts of one client's shard that act as clients of their own.
//!
//! The draw sees only how many samples there are, grouped by head row, so a plan that knows sizes alone
//! cuts as the run does.
//!
//! ```
//! use fedcast::data::units;
//! use fedcast::quantity::{ClientId, TaskId};
//! let parts = units::cut(7, 3, units::key(1, TaskId(0), ClientId(4)));
//! assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2, 2]);
//! assert_eq!(units::cut(2, 3, units::key(1, TaskId(0), ClientId(4))).len(), 2); // none is empty
//! ```

use crate::numerics::distributions::shuffle;
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ClientId, TaskId};

/// Where a client's cut of a task is drawn.
pub fn key(seed: u64, task: TaskId, client: ClientId) -> StreamKey {
    StreamKey::new(seed, Domain::Units).task(u32::from(task.0)).client(client.0)
}

/// The places `0..samples` in at most `units` random parts of nearly equal size, the larger ones
/// first and none empty; each part ascending.
pub fn cut(samples: usize, units: u32, key: StreamKey) -> Vec<Vec<u32>> {
    let units = (units as usize).min(samples);
    let mut places: Vec<u32> = (0..samples as u32).collect();
    shuffle(&mut key.rng(), &mut places);
    let mut rest = places.as_slice();
    let part = |unit: usize| {
        let (mine, others) = rest.split_at(samples / units + usize::from(unit < samples % units));
        rest = others;
        let mut mine = mine.to_vec();
        mine.sort_unstable();
        mine
    };
    (0..units).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_nearly_equal_and_random() {
        let drawn = |seed| cut(103, 10, key(seed, TaskId(1), ClientId(2)));
        let parts = drawn(1);
        let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert_eq!(sizes, [11, 11, 11, 10, 10, 10, 10, 10, 10, 10]);
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(all, (0..103).collect::<Vec<u32>>());
        assert_ne!(drawn(2), parts);
        assert_eq!(drawn(1), parts);
        assert!(parts.iter().all(|part| part.is_sorted()));
        // No part is a stretch of neighbours.
        assert!(parts.iter().all(|part| part[part.len() - 1] - part[0] > 30));
    }
}
