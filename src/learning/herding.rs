//! Herding: which samples of a class a client keeps.
//!
//! Every rule puts the samples of one class in an order from its frozen features alone, so what is kept does not
//! depend on any training, and of two shares the smaller one is a part of the larger.
//!
//! ```
//! use fedcast::learning::{Herding, kept};
//! let features = [0.0f32, 1.0, 2.0, 9.0]; // four samples of width 1, mean 3
//! assert_eq!(Herding::Nearest.order(&features, 1, 4), [2, 1, 0, 3]);
//! assert_eq!(Herding::Greedy.order(&features, 1, 2), [2, 1]); // means 2 and 1.5, nearest to 3
//! assert_eq!(kept(4, 0.3), 2); // ceil(0.3 * 4)
//! ```

use std::ops::Range;

use clap::ValueEnum;

use crate::numerics::share::least_share_of;
use crate::scenario::reader::Choice;

/// How the samples of a class are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Herding {
    /// Those nearest to the class mean (FedHAF, eq. 6).
    Nearest,
    /// Those whose mean is nearest to the class mean (iCaRL).
    ///
    /// The next sample is the one that brings the mean of the chosen ones nearest to the class mean.
    Greedy,
    /// Greedy, on features of length one.
    ///
    /// Their mean is not of length one.
    GreedyUnit,
}

impl Choice for Herding {}

impl Herding {
    /// The first `count` samples in this order, of `features` `(samples, dim)` in row-major order; the lower
    /// index of two equals comes first.
    pub fn order<T: Copy + Into<f64>>(
        self,
        features: &[T],
        dim: usize,
        count: usize,
    ) -> Vec<usize> {
        let mut rows: Vec<Vec<f64>> = features
            .chunks_exact(dim)
            .map(|row| row.iter().map(|v| (*v).into()).collect())
            .collect();
        if self == Herding::GreedyUnit {
            rows.iter_mut().for_each(|row| {
                let length = norm(row.iter().copied());
                row.iter_mut().for_each(|v| *v /= length.max(f64::MIN_POSITIVE));
            });
        }
        let mut mean = vec![0.0; dim];
        for row in &rows {
            mean.iter_mut().zip(row).for_each(|(sum, v)| *sum += v / rows.len() as f64);
        }
        match self {
            Herding::Nearest => nearest(&rows, &mean, count),
            Herding::Greedy | Herding::GreedyUnit => greedy(&rows, &mean, count),
        }
    }
}

/// Samples kept of a class of `samples`: `ceil(share * samples)`.
pub fn kept(samples: usize, share: f64) -> usize {
    least_share_of(samples, share).min(samples)
}

fn nearest(rows: &[Vec<f64>], mean: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<(f64, usize)> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| (norm(row.iter().zip(mean).map(|(v, m)| v - m)), at))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order.into_iter().take(count).map(|(_, at)| at).collect()
}

fn greedy(rows: &[Vec<f64>], mean: &[f64], count: usize) -> Vec<usize> {
    let mut sum = vec![0.0; mean.len()];
    let mut left: Vec<usize> = (0..rows.len()).collect();
    let mut order = Vec::new();
    while order.len() < count.min(rows.len()) {
        let chosen = (order.len() + 1) as f64;
        let gap = |at: usize| {
            norm(
                rows[at]
                    .iter()
                    .zip(&sum)
                    .zip(mean)
                    .map(|((v, sum), mean)| mean - (sum + v) / chosen),
            )
        };
        let gaps = left.iter().enumerate().map(|(place, at)| (gap(*at), place));
        let Some((_, place)) = gaps.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))) else {
            break;
        };
        let at = left.remove(place);
        sum.iter_mut().zip(&rows[at]).for_each(|(sum, v)| *sum += v);
        order.push(at);
    }
    order
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}

/// The samples of a shard that are kept, ascending: of every head row the first ones of its order. `labels` are
/// the head rows of `shard`, `features` `(samples, dim)` belong to them; only `rows` are looked at.
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
    use crate::golden::Golden;

    #[test]
    fn golden_herding_orders() {
        let Some(golden) = Golden::open("statistics") else { return };
        let (features, shape) = (golden.f64("herd.features"), golden.shape("herd.features"));
        let order = |rule: Herding, count: usize| -> Vec<i64> {
            rule.order(&features, shape[1], count).into_iter().map(|at| at as i64).collect()
        };
        assert_eq!(order(Herding::Greedy, 20), golden.i64("herd.greedy"));
        assert_eq!(order(Herding::GreedyUnit, 20), golden.i64("herd.greedy_unit"));
        assert_eq!(order(Herding::Nearest, 20), golden.i64("herd.nearest"));
        let few = order(Herding::Nearest, kept(20, 0.2));
        assert_eq!(few, golden.i64("herd.nearest_20pct"));
    }

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
