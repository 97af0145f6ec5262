//! The weighted mean of parameters, as FedAvg takes it: base plus weighted differences, in f64.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::PolicyError;
use crate::model::{Parameter, ParameterSet};
use crate::numerics::robust::Weighted;
use crate::numerics::wide::{WideWork, each, wide};

/// Sum over participants of `weight * (value - base)` for every parameter.
///
/// Kept as differences, so that coordinates no client changed keep their bits, and in f64, so
/// that the result hardly depends on the order of the clients (which is fixed anyway).
///
/// A client may send fewer leading rows of a matrix than the server holds (a head that grows
/// with the classes): the rows it does not send count as unchanged.
#[derive(Clone, Debug, Default)]
pub struct ParameterAverage {
    weight: f64,
    deltas: BTreeMap<Arc<str>, Vec<f64>>,
}

impl ParameterAverage {
    /// Creates the contribution of one participant: values received, values sent, and the weight.
    pub fn one(
        weight: f64,
        base: &ParameterSet,
        value: &ParameterSet,
    ) -> Result<ParameterAverage, PolicyError> {
        let mut deltas = BTreeMap::new();
        for (name, parameter) in value.iter() {
            let fits = |from: &&Parameter| {
                from.values.len() == parameter.values.len() && from.shape == parameter.shape
            };
            let from = base.get(name).filter(fits).ok_or_else(|| {
                PolicyError::Unsupported(format!(
                    "an upload holds `{name}` of shape {:?}, which its receiver was not sent",
                    parameter.shape
                ))
            })?;
            let sum = ParameterAverage::weighted(weight, &from.values, &parameter.values, (0, 0));
            deltas.insert(Arc::clone(name), sum);
        }
        Ok(ParameterAverage { weight, deltas })
    }

    /// Returns `weight * (value - base)` for one parameter, between `before` and `after` zeros.
    pub fn weighted(
        weight: f64,
        base: &[f32],
        value: &[f32],
        (before, after): (usize, usize),
    ) -> Vec<f64> {
        let mut sum = vec![0.0; before + value.len() + after];
        wide(WeightedDifference {
            weight,
            base,
            value,
            sum: &mut sum[before..before + value.len()],
        });
        sum
    }

    /// Returns a copy whose step is scaled by `factor`; the weights stay. It discounts late uploads (FedBuff) and clips
    /// long ones.
    pub fn discounted(mut self, factor: f64) -> ParameterAverage {
        if factor != 1.0 {
            let sums = self.deltas.values_mut().flatten();
            sums.for_each(|sum| *sum *= factor);
        }
        self
    }

    /// Creates a mean by another rule: `mean` gives each number from the differences of all updates.
    ///
    /// Each update has a weight above zero. A number that an update lacks is unchanged.
    pub fn by_number(
        updates: &[ParameterAverage],
        mut mean: impl FnMut(&mut [Weighted]) -> f64,
    ) -> ParameterAverage {
        let weight = updates.iter().map(|update| update.weight).sum();
        let mut lengths: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for (name, sum) in updates.iter().flat_map(|update| &update.deltas) {
            let length = lengths.entry(name).or_default();
            *length = sum.len().max(*length);
        }
        let mut numbers = vec![Weighted { value: 0.0, weight: 0.0 }; updates.len()];
        let sums = lengths.into_iter().map(|(name, length)| {
            let said: Vec<&[f64]> =
                updates.iter().map(|update| update.sum(name).unwrap_or_default()).collect();
            let of_number = |at: usize| {
                for ((number, said), update) in numbers.iter_mut().zip(&said).zip(updates) {
                    let value = said.get(at).map_or(0.0, |sum| sum / update.weight);
                    *number = Weighted { value, weight: update.weight };
                }
                weight * mean(&mut numbers)
            };
            (Arc::clone(name), (0..length).map(of_number).collect())
        });
        ParameterAverage::from_sums(weight, sums.collect::<Vec<_>>())
    }

    /// Returns the squared Euclidean norm of the mean difference, over all parameters; zero without weight.
    pub fn squared_norm(&self) -> f64 {
        if self.weight <= 0.0 {
            return 0.0;
        }
        let sums = self.deltas.values().flatten();
        sums.map(|sum| (sum / self.weight) * (sum / self.weight)).sum()
    }

    /// Returns the sum of the weights.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Creates an average of sums that were added elsewhere, by parameter.
    pub fn from_sums(weight: f64, sums: impl IntoIterator<Item = (Arc<str>, Vec<f64>)>) -> Self {
        ParameterAverage { weight, deltas: sums.into_iter().collect() }
    }

    /// Returns the weighted differences of one parameter, flat.
    pub fn sum(&self, name: &str) -> Option<&[f64]> {
        self.deltas.get(name).map(Vec::as_slice)
    }

    /// Returns `base` plus the mean difference; parameters that no client sent stay as they are.
    pub fn apply(&self, base: &ParameterSet) -> ParameterSet {
        let mut result = base.clone();
        for (name, sum) in &self.deltas {
            let Some(from) = base.get(name) else { continue };
            let mut values: Arc<[f32]> = Arc::from(&from.values[..]);
            // No one else holds it yet, so this copies nothing more.
            self.move_values(Arc::make_mut(&mut values), sum);
            let shape = from.shape.clone();
            result.insert(Arc::clone(name), Parameter { shape, values });
        }
        result
    }

    /// Moves as many leading values as there are sums, each rounded once to f32.
    ///
    /// Moves none if the total weight is zero.
    fn move_values(&self, values: &mut [f32], sums: &[f64]) {
        if self.weight <= 0.0 {
            return;
        }
        let weight = self.weight;
        each(values, sums, move |value, sum| *value = (f64::from(*value) + sum / weight) as f32);
    }

    /// Merges the average of earlier participants with that of later ones.
    ///
    /// A participant that did not send a parameter counts in its mean as one that left it unchanged.
    pub fn merge(mut self, later: ParameterAverage) -> ParameterAverage {
        self.weight += later.weight;
        for (name, sum) in later.deltas {
            match self.deltas.get_mut(&name) {
                None => drop(self.deltas.insert(name, sum)),
                Some(mine) => {
                    mine.resize(mine.len().max(sum.len()), 0.0);
                    each(mine, &sum, |mine, theirs| *mine += theirs);
                }
            }
        }
        self
    }
}

/// Sets `sum` to `weight * (value - base)`.
struct WeightedDifference<'a> {
    weight: f64,
    base: &'a [f32],
    value: &'a [f32],
    sum: &'a mut [f64],
}

impl WideWork for WeightedDifference<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let WeightedDifference { weight, base, value, sum } = self;
        for ((sum, v), b) in sum.iter_mut().zip(value).zip(base) {
            *sum = weight * (f64::from(*v) - f64::from(*b));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(values: &[f32]) -> ParameterSet {
        let (a, b) = values.split_at(values.len() / 2);
        let parameter = |v: &[f32]| Parameter { shape: vec![v.len()], values: v.into() };
        [("a", parameter(a)), ("b", parameter(b))].into_iter().collect()
    }

    fn flat(set: &ParameterSet) -> Vec<f32> {
        set.iter().flat_map(|(_, p)| p.values.to_vec()).collect()
    }

    fn mean_of(base: &ParameterSet, ups: &[(f64, ParameterSet)]) -> ParameterSet {
        let parts = ups.iter().map(|(w, up)| ParameterAverage::one(*w, base, up).unwrap());
        parts.reduce(ParameterAverage::merge).unwrap().apply(base)
    }

    fn close(a: &ParameterSet, b: &ParameterSet) -> bool {
        flat(a).iter().zip(flat(b)).all(|(x, y)| (x - y).abs() <= 1e-6 * (1.0 + y.abs()))
    }

    const N: usize = 6;

    prop_compose! {
        fn uploads()(ups in prop::collection::vec(
            (1u32..500, prop::collection::vec(-3f32..3.0, N)), 1..6))
        -> Vec<(f64, ParameterSet)> {
            ups.into_iter().map(|(n, values)| (f64::from(n), set(&values))).collect()
        }
    }

    proptest! {
        /// FedAvg card, invariants 4 (permutation), 6, 7 and 8.
        #[test]
        fn a_mean_as_the_card_asks(base in prop::collection::vec(-3f32..3.0, N), ups in uploads()) {
            let base = set(&base);
            let mean = mean_of(&base, &ups);

            let mut reversed = ups.clone();
            reversed.reverse();
            prop_assert!(close(&mean_of(&base, &reversed), &mean));

            let scaled: Vec<_> = ups.iter().map(|(w, up)| (w * 8.0, up.clone())).collect();
            prop_assert_eq!(&mean_of(&base, &scaled), &mean);

            let mut with_silent = ups.clone();
            with_silent.push((0.0, set(&[1e30; N])));
            prop_assert!(close(&mean_of(&base, &with_silent), &mean));

            let halves: Vec<_> =
                ups.iter().flat_map(|(w, up)| vec![(w / 2.0, up.clone()); 2]).collect();
            prop_assert!(close(&mean_of(&base, &halves), &mean));

            for (i, value) in flat(&mean).into_iter().enumerate() {
                let all = ups.iter().map(|(_, up)| flat(up)[i]);
                let (low, high) = all.fold((f32::MAX, f32::MIN), |(l, h), v| (l.min(v), h.max(v)));
                prop_assert!(low - 1e-6 <= value && value <= high + 1e-6);
            }
        }

        /// FedAvg card, invariants 2 and 4: equal uploads are the identity, and a coordinate that no client moved keeps
        /// its bits.
        #[test]
        fn equal_uploads_are_the_identity(
            base in prop::collection::vec(-3f32..3.0, N),
            up in prop::collection::vec(-3f32..3.0, N),
            weights in prop::collection::vec(1u32..500, 1..6),
        ) {
            let (base_set, mut up) = (set(&base), up);
            up[2] = base[2];
            let ups: Vec<_> = weights.iter().map(|w| (f64::from(*w), set(&up))).collect();
            let mean = flat(&mean_of(&base_set, &ups));
            prop_assert_eq!(mean[2].to_bits(), base[2].to_bits());
            for (got, want) in mean.iter().zip(&up) {
                prop_assert!((got - want).abs() <= f32::EPSILON * want.abs().max(1e-3));
            }
        }
    }

    #[test]
    fn rows_that_only_some_sent_count_as_unchanged_elsewhere() {
        let rows = |values: &[f32]| -> ParameterSet {
            [("head.bias", Parameter { shape: vec![values.len()], values: values.into() })]
                .into_iter()
                .collect()
        };
        let (old, new) = (rows(&[0.0, 0.0]), rows(&[0.0, 0.0, 0.0]));
        let early = ParameterAverage::one(1.0, &old, &rows(&[1.0, 1.0])).unwrap();
        let late = ParameterAverage::one(3.0, &new, &rows(&[1.0, 1.0, 4.0])).unwrap();
        assert_eq!(early.clone().merge(late).apply(&new), rows(&[1.0, 1.0, 3.0]));
        assert_eq!(early.weight(), 1.0);
    }

    #[test]
    fn a_discounted_upload_moves_less_and_counts_as_much() {
        let one = |value: f32| ParameterAverage::one(2.0, &set(&[0.0; 2]), &set(&[value; 2]));
        let alone = one(4.0).unwrap().discounted(0.5);
        assert_eq!(alone.weight(), 2.0);
        assert_eq!(flat(&alone.clone().apply(&set(&[1.0; 2]))), [3.0; 2]);
        let both = alone.merge(one(2.0).unwrap());
        assert_eq!(flat(&both.apply(&set(&[0.0; 2]))), [2.0; 2]);
    }

    #[test]
    fn another_mean_sees_each_difference_and_what_it_counts() {
        let base = set(&[1.0, 1.0, 0.0, 0.0]);
        let up = |weight: f64, values: &[f32]| {
            ParameterAverage::one(weight, &base, &set(values)).unwrap()
        };
        let updates = [up(2.0, &[2.0, 1.0, 5.0, 0.0]), up(6.0, &[4.0, 1.0, -3.0, 8.0])];
        let mut seen = Vec::new();
        let mean = ParameterAverage::by_number(&updates, |numbers| {
            seen.push([0, 1].map(|update| (numbers[update].value, numbers[update].weight)));
            numbers[1].value
        });
        let counted = |first: f64, second: f64| [(first, 2.0), (second, 6.0)];
        assert_eq!(
            seen,
            [counted(1.0, 3.0), counted(0.0, 0.0), counted(5.0, -3.0), counted(0.0, 8.0)]
        );
        assert_eq!(mean.weight(), 8.0);
        assert_eq!(flat(&mean.apply(&base)), [4.0, 1.0, -3.0, 8.0]);
    }

    #[test]
    fn the_norm_is_that_of_the_mean_difference() {
        let base = set(&[1.0; 4]);
        let both = [[3.0, 1.0, 1.0, 5.0], [-1.0, 1.0, 1.0, 9.0]].map(|up| (4.0, set(&up)));
        let mean =
            both.iter().map(|(weight, up)| ParameterAverage::one(*weight, &base, up).unwrap());
        // Differences of 0, 0, 0 and 6.
        assert_eq!(mean.reduce(ParameterAverage::merge).unwrap().squared_norm(), 36.0);
        let one = ParameterAverage::one(4.0, &base, &set(&[4.0, 1.0, 1.0, 5.0])).unwrap();
        assert_eq!(one.squared_norm(), 9.0 + 16.0);
        let weightless = ParameterAverage::one(0.0, &base, &set(&[9.0; 4])).unwrap();
        assert_eq!(weightless.squared_norm(), 0.0);
    }

    #[test]
    fn an_upload_of_another_shape_is_refused() {
        let error = ParameterAverage::one(1.0, &set(&[0.0; 4]), &set(&[0.0; 6])).unwrap_err();
        assert!(error.to_string().contains("`a`"), "{error}");
        // As many numbers, in another form.
        let form = |shape: &[usize]| -> ParameterSet {
            let values = [0.0; 4].into();
            [("a", Parameter { shape: shape.to_vec(), values })].into_iter().collect()
        };
        assert!(ParameterAverage::one(1.0, &form(&[2, 2]), &form(&[4, 1])).is_err());
        assert!(ParameterAverage::one(1.0, &form(&[2, 2]), &form(&[2, 2])).is_ok());
    }
}
