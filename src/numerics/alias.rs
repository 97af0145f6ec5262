//! Alias tables, which draw a weighted index in constant time (Walker 1977; Vose 1991).
//!
//! ```
//! use fedcast::numerics::alias::AliasTable;
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! let table = AliasTable::new(&[1.0, 0.0, 3.0]).unwrap();
//! assert_eq!(table.probabilities(), [0.25, 0.0, 0.75]);
//! let mut rng = StreamKey::new(7, Domain::Rebalance).rng();
//! assert_ne!(table.sample(&mut rng), 1);
//! ```

use rand::RngCore;

use super::distributions::{below, unit};

/// Alias table. Column `i` has height 1 and belongs to `i` below its threshold and to its alias above.
#[derive(Clone, Debug)]
pub struct AliasTable {
    threshold: Vec<f64>,
    alias: Vec<u32>,
}

impl AliasTable {
    /// Creates the table of these weights, which need not sum to one.
    ///
    /// Returns `None` if a weight is negative or not finite, or their sum is zero or not finite.
    pub fn new(weights: &[f64]) -> Option<AliasTable> {
        let total: f64 = weights.iter().sum();
        let valid = weights.iter().all(|w| w.is_finite() && *w >= 0.0);
        if !valid || total <= 0.0 || !total.is_finite() || u32::try_from(weights.len()).is_err() {
            return None;
        }
        let n = weights.len() as f64;
        let mut height: Vec<f64> = weights.iter().map(|w| w / total * n).collect();
        let mut alias: Vec<u32> = (0..weights.len() as u32).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..weights.len()).rev().partition(|i| height[*i] < 1.0);
        let mut threshold = vec![1.0; weights.len()];
        while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
            small.pop();
            threshold[low] = height[low];
            alias[low] = high as u32;
            height[high] = (height[high] + height[low]) - 1.0;
            if height[high] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        // Rounding may leave columns that are full except for a last bit. Those of weight zero must not be drawn.
        let heaviest = (0..weights.len()).max_by(|a, b| weights[*a].total_cmp(&weights[*b]))?;
        for left in small.into_iter().filter(|i| weights[*i] == 0.0) {
            threshold[left] = 0.0;
            alias[left] = heaviest as u32;
        }
        Some(AliasTable { threshold, alias })
    }

    /// Returns the number of weights.
    pub fn len(&self) -> usize {
        self.alias.len()
    }

    /// Returns false, as a table has at least one weight.
    pub fn is_empty(&self) -> bool {
        self.alias.is_empty()
    }

    /// Returns the probability of each index, read back from the table (not from the weights).
    pub fn probabilities(&self) -> Vec<f64> {
        let mut height = vec![0.0; self.len()];
        for (i, (threshold, alias)) in self.threshold.iter().zip(&self.alias).enumerate() {
            height[i] += threshold;
            height[*alias as usize] += 1.0 - threshold;
        }
        height.into_iter().map(|h| h / self.len() as f64).collect()
    }

    /// Draws an index whose weight is not zero. It takes two words.
    pub fn sample(&self, rng: &mut impl RngCore) -> usize {
        let column = below(rng, self.len() as u64) as usize;
        if unit(rng) < self.threshold[column] { column } else { self.alias[column] as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{Golden, assert_close};
    use crate::numerics::streams::{Domain, StreamKey};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_table_holds_the_weights(
            weights in proptest::collection::vec(
                prop_oneof![1 => Just(0.0), 4 => 1e-6f64..1.0, 1 => 1.0f64..1e6], 1..60,
            ),
        ) {
            let total: f64 = weights.iter().sum();
            prop_assume!(total > 0.0);
            let table = AliasTable::new(&weights).unwrap();
            for (p, w) in table.probabilities().iter().zip(&weights) {
                prop_assert!((p - w / total).abs() < 1e-14, "{p} for weight {w} of {total}");
                prop_assert!((*w > 0.0) || *p == 0.0, "weight zero has probability {p}");
            }
        }
    }

    #[test]
    fn draws_follow_the_weights_and_repeat() {
        let weights = [0.1, 0.0, 0.4, 0.2, 0.3];
        let table = AliasTable::new(&weights).unwrap();
        let draw = |n: usize| {
            let mut rng = StreamKey::new(3, Domain::Rebalance).rng();
            (0..n).map(|_| table.sample(&mut rng)).collect::<Vec<_>>()
        };
        let draws = draw(100_000);
        for (i, w) in weights.iter().enumerate() {
            let share = draws.iter().filter(|d| **d == i).count() as f64 / 1e5;
            assert!((share - w).abs() < 0.006, "{i}: {share}");
        }
        assert_eq!(draw(50), draws[..50]);
    }

    #[test]
    fn senseless_weights_make_no_table() {
        for weights in [&[][..], &[0.0], &[2.0, -1.0], &[f64::NAN], &[f64::MAX, f64::MAX]] {
            assert!(AliasTable::new(weights).is_none(), "{weights:?}");
        }
        assert_eq!(AliasTable::new(&[2.0]).unwrap().probabilities(), [1.0]);
    }

    /// HGP draws a class, then a client: the product of the two tables is the probability of the cell.
    #[test]
    fn golden_two_levels_are_one_categorical() {
        let Some(golden) = Golden::open("statistics") else { return };
        let shape = golden.shape("hgp.count");
        let (clients, classes) = (shape[0], shape[1]);
        let count = golden.i64("hgp.count");
        let usable = |m: usize, c: usize| match count[m * classes + c] {
            n if n >= 2 => n as f64,
            _ => 0.0,
        };
        let within: Vec<AliasTable> = (0..classes)
            .map(|c| {
                let weights: Vec<f64> = (0..clients).map(|m| usable(m, c)).collect();
                AliasTable::new(&weights).unwrap()
            })
            .collect();
        let mut pi = vec![0.0; clients * classes];
        for (c, table) in within.iter().enumerate() {
            for (m, p) in table.probabilities().into_iter().enumerate() {
                pi[m * classes + c] = p;
            }
        }
        golden.assert_close("hgp.pi", &pi);
        let samples = |c: usize| (0..clients).map(|m| count[m * classes + c] as f64).sum::<f64>();
        let by_share: Vec<f64> = (0..classes).map(samples).collect();
        for (name, omega) in
            [("hgp.cell_uniform", vec![1.0; classes]), ("hgp.cell_share", by_share)]
        {
            let omega = AliasTable::new(&omega).unwrap().probabilities();
            let cell: Vec<f64> =
                pi.iter().enumerate().map(|(i, p)| p * omega[i % classes]).collect();
            golden.assert_close(name, &cell);
            assert_close(name, &[cell.iter().sum()], &[1.0], 1e-12);
        }
    }
}
