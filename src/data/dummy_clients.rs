//! Dummy clients: random parts of one client's shard that act as clients.
//!
//! The draw depends only on the number of a client's samples. Positions count through them sorted by head row, so that
//! a plan, which knows class counts alone, cuts shards as the run does.
//!
//! ```
//! use fedcast::data::dummy_clients::{self, DummyClientSplit};
//! use fedcast::quantity::{ClientId, TaskId};
//! let key = || dummy_clients::key(1, TaskId(0), ClientId(4));
//! let sizes = |samples, rule| -> Vec<usize> {
//!     dummy_clients::cut(samples, 3, rule, key()).iter().map(Vec::len).collect()
//! };
//! assert_eq!(sizes(11, DummyClientSplit::Even), [4, 4, 3]);
//! assert_eq!(sizes(11, DummyClientSplit::RemainderLast), [3, 3, 5]);
//! assert_eq!(sizes(2, DummyClientSplit::Even), [1, 1]); // none is empty
//! assert_eq!(sizes(2, DummyClientSplit::RemainderLast), [0, 0, 2]);
//! assert_eq!(dummy_clients::numbers(2, 3, DummyClientSplit::RemainderLast), 2..3); // the others act nowhere
//! ```

use std::ops::Range;

use crate::numerics::distributions::shuffle;
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ClientId, TaskId};
pub use crate::scenario::DummyClientSplit;

/// Returns the stream key of a client's cut of a task.
pub fn key(seed: u64, task: TaskId, client: ClientId) -> StreamKey {
    StreamKey::new(seed, Domain::DummyClients).task(u32::from(task.0)).client(client.0)
}

/// Returns the numbers of the dummy clients that hold at least one of `samples` samples.
pub fn numbers(samples: usize, count: u32, rule: DummyClientSplit) -> Range<u32> {
    match rule {
        DummyClientSplit::Even => 0..(count as usize).min(samples) as u32,
        DummyClientSplit::RemainderLast if samples == 0 => count..count,
        DummyClientSplit::RemainderLast if samples < count as usize => {
            count.saturating_sub(1)..count
        }
        DummyClientSplit::RemainderLast => 0..count,
    }
}

/// Splits the positions `0..samples` randomly among `count` dummy clients, ascending within each. Dummy clients that
/// [`numbers`] does not include get none.
pub fn cut(samples: usize, count: u32, rule: DummyClientSplit, key: StreamKey) -> Vec<Vec<u32>> {
    let parts = numbers(samples, count, rule).end as usize;
    let mut places: Vec<u32> = (0..samples as u32).collect();
    shuffle(&mut key.rng(), &mut places);
    let mut rest = places.as_slice();
    let part = |dummy_client: usize| {
        let size = match rule {
            DummyClientSplit::Even => samples / parts + usize::from(dummy_client < samples % parts),
            DummyClientSplit::RemainderLast if dummy_client + 1 == parts => rest.len(),
            DummyClientSplit::RemainderLast => samples / parts,
        };
        let (mine, others) = rest.split_at(size);
        rest = others;
        let mut mine = mine.to_vec();
        mine.sort_unstable();
        mine
    };
    (0..parts).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint_nearly_equal_and_random() {
        let drawn = |seed| cut(103, 10, DummyClientSplit::Even, key(seed, TaskId(1), ClientId(2)));
        let parts = drawn(1);
        let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert_eq!(sizes, [11, 11, 11, 10, 10, 10, 10, 10, 10, 10]);
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(all, (0..103).collect::<Vec<u32>>());
        assert_ne!(drawn(2), parts);
        assert_eq!(drawn(1), parts);
        assert!(parts.iter().all(|part| part.is_sorted()));
        // No part is a stretch of neighbors.
        assert!(parts.iter().all(|part| part[part.len() - 1] - part[0] > 30));
    }

    /// STSA's code: steps of `n / S`, the last takes the rest; fewer samples than parts are one part.
    #[test]
    fn as_released_the_last_takes_the_rest() {
        let drawn = |samples| {
            cut(samples, 10, DummyClientSplit::RemainderLast, key(1, TaskId(1), ClientId(2)))
        };
        for (samples, step, last) in
            [(103, 10, 13), (109, 10, 19), (110, 11, 11), (10, 1, 1), (9, 0, 9)]
        {
            let parts = drawn(samples);
            let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
            assert_eq!(sizes, [&[step; 9][..], &[last]].concat(), "{samples}");
            let mut all = parts.concat();
            all.sort_unstable();
            assert_eq!(all, (0..samples as u32).collect::<Vec<u32>>());
            let named = numbers(samples, 10, DummyClientSplit::RemainderLast);
            let held = (0..10u32).filter(|dummy_client| sizes[*dummy_client as usize] > 0);
            assert_eq!(named.collect::<Vec<u32>>(), held.collect::<Vec<u32>>(), "{samples}");
        }
        assert_eq!(drawn(0).concat(), [0u32; 0]);
        assert!(numbers(0, 10, DummyClientSplit::RemainderLast).is_empty());
        assert!(drawn(103).iter().all(|part| part.is_sorted()));
        assert!(drawn(103)[9].windows(2).any(|pair| pair[1] > pair[0] + 1), "not a stretch");
    }
}
