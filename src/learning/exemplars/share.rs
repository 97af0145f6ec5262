//! Equal fraction of every class of a shard.
//!
//! ```
//! use fedcast::learning::kept;
//! assert_eq!(kept(4, 0.3), 2); // ceil(0.3 * 4)
//! ```

use std::ops::Range;

use crate::learning::Herding;
use crate::numerics::share::least_share_of;

/// Returns the number of samples kept of a class of `samples`: `ceil(share * samples)`.
pub fn kept(samples: usize, share: f64) -> usize {
    least_share_of(samples, share).min(samples)
}

/// Returns the samples of a shard that are kept, ascending: the first ones of every head row in its order of merit.
///
/// `labels` are the head rows of `shard`, and `features` `(samples, dim)` belong to its samples; only classes in `rows`
/// are considered.
pub fn exemplars(
    rule: Herding,
    share: f64,
    rows: Range<usize>,
    shard: &[u32],
    labels: &[u32],
    features: &[f32],
) -> Vec<u32> {
    let dim = features.len() / shard.len().max(1);
    let mut chosen = Vec::new();
    for row in rows {
        let places: Vec<usize> =
            (0..shard.len()).filter(|place| labels[*place] as usize == row).collect();
        let own: Vec<f32> = places
            .iter()
            .flat_map(|place| &features[place * dim..(place + 1) * dim])
            .copied()
            .collect();
        let count = kept(places.len(), share);
        chosen.extend(rule.order(&own, dim, count).into_iter().map(|at| shard[places[at]]));
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(samples: usize) -> Vec<f32> {
        (0..3 * samples).map(|i| ((i * i) as f32 * 0.37).sin()).collect()
    }

    /// FedHAF card, invariants 4 and 6.
    #[test]
    fn a_smaller_share_is_a_part_of_a_larger_one_and_never_above_it() {
        let (shard, labels): (Vec<u32>, Vec<u32>) = (0..50).map(|i| (100 + i, i % 3)).unzip();
        let chosen = |rule, share| exemplars(rule, share, 0..3, &shard, &labels, &features(50));
        for rule in [Herding::Nearest, Herding::Greedy, Herding::GreedyUnit] {
            let shares = [0.0, 0.01, 0.2, 0.5, 1.0].map(|share| chosen(rule, share));
            for (few, more) in shares.iter().zip(&shares[1..]) {
                assert!(few.iter().all(|sample| more.contains(sample)), "{rule:?}");
            }
            // 17, 17 and 16 samples of the three rows.
            assert_eq!(shares.each_ref().map(Vec::len), [0, 3, 4 + 4 + 4, 9 + 9 + 8, 50]);
            assert_eq!(shares[4], shard);
            assert_eq!(chosen(rule, 0.2), shares[2], "deterministic");
        }
        let of_one = exemplars(Herding::Nearest, 0.2, 1..2, &shard, &labels, &features(50));
        assert!(of_one.iter().all(|sample| labels[*sample as usize - 100] == 1));
    }

    #[test]
    fn a_share_of_a_class_is_rounded_up_once() {
        assert_eq!([kept(100, 0.07), kept(20, 0.2), kept(21, 0.2), kept(1, 0.01)], [7, 4, 5, 1]);
        assert_eq!([kept(0, 0.2), kept(5, 0.0), kept(5, 1.0)], [0, 0, 5]);
    }
}
