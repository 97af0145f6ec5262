//! Mean of parameters in which every number has its own weights.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Parameter, ParameterSet};
use crate::numerics::wide::{WideWork, each, wide};

/// Weight added to every number, so that numbers with weight at no client get the plain mean.
const FLOOR: f64 = 1e-12;

/// Sums over participants of `w (value - base)` and of `w`, number by number.
///
/// Here `w = max(weight, 0) + 1e-12`.
///
/// Kept as differences and in f64, as [`ParameterAverage`](super::ParameterAverage) is: a number that is equal at all
/// participants keeps its bits. A participant that does not send some rows does not count in them.
#[derive(Clone, Debug, Default)]
pub struct ElementwiseAverage {
    by_name: BTreeMap<Arc<str>, Weighed>,
}

/// Sums of one parameter, flat.
#[derive(Clone, Debug, Default)]
struct Weighed {
    moved: Vec<f64>,
    weights: Vec<f64>,
}

impl ElementwiseAverage {
    /// Adds a participant's parameter that begins after `before` numbers: values received, values sent, and weights.
    pub fn insert(
        &mut self,
        name: &Arc<str>,
        before: usize,
        (base, value, weights): (&[f32], &[f32], &[f32]),
    ) {
        let numbers = before + value.len();
        let mut weighed = Weighed { moved: vec![0.0; numbers], weights: vec![0.0; numbers] };
        let of = &mut weighed;
        wide(Weigh { of, before, base, value, weights });
        self.by_name.insert(Arc::clone(name), weighed);
    }

    /// Returns a copy whose step is scaled by `factor`; the weights stay. It discounts late uploads.
    pub fn discounted(mut self, factor: f64) -> ElementwiseAverage {
        if factor != 1.0 {
            let moved = self.by_name.values_mut().flat_map(|weighed| &mut weighed.moved);
            moved.for_each(|moved| *moved *= factor);
        }
        self
    }

    /// Joins the average of earlier participants with that of later ones.
    pub fn merge(mut self, later: ElementwiseAverage) -> ElementwiseAverage {
        for (name, theirs) in later.by_name {
            match self.by_name.get_mut(&name) {
                None => drop(self.by_name.insert(name, theirs)),
                Some(mine) => {
                    add(&mut mine.moved, &theirs.moved);
                    add(&mut mine.weights, &theirs.weights);
                }
            }
        }
        self
    }

    /// Returns the sums of weights of a parameter, number by number.
    pub fn weights(&self, name: &str) -> Option<&[f64]> {
        self.by_name.get(name).map(|weighed| &weighed.weights[..])
    }

    /// Returns `base + (sum of w (value - base)) / (sum of w)`, rounded once to f32.
    pub fn apply(&self, base: ParameterSet) -> ParameterSet {
        let mut result = base;
        for (name, Weighed { moved, weights }) in &self.by_name {
            let Some(Parameter { shape, values }) = result.get(name).cloned() else { continue };
            let mut values: Arc<[f32]> = Arc::from(&values[..]);
            let own = Arc::make_mut(&mut values);
            for (value, (moved, weight)) in own.iter_mut().zip(moved.iter().zip(weights)) {
                if *weight > 0.0 {
                    *value = (f64::from(*value) + moved / weight) as f32;
                }
            }
            result.insert(Arc::clone(name), Parameter { shape, values });
        }
        result
    }
}

fn add(mine: &mut Vec<f64>, theirs: &[f64]) {
    mine.resize(mine.len().max(theirs.len()), 0.0);
    each(mine, theirs, |mine, theirs| *mine += theirs);
}

/// Computation of weights and weighted differences, behind the first `before` numbers.
struct Weigh<'a> {
    of: &'a mut Weighed,
    before: usize,
    base: &'a [f32],
    value: &'a [f32],
    weights: &'a [f32],
}

impl WideWork for Weigh<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let Weigh { of, before, base, value, weights } = self;
        let own = of.moved[before..].iter_mut().zip(&mut of.weights[before..]);
        for ((moved, weight), ((b, v), w)) in own.zip(base.iter().zip(value).zip(weights)) {
            // A weight may be below zero after noise.
            *weight = f64::from(w.max(0.0)) + FLOOR;
            *moved = *weight * (f64::from(*v) - f64::from(*b));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use crate::policy::ParameterAverage;
    use proptest::prelude::*;

    const N: usize = 5;

    fn set(values: &[f32]) -> ParameterSet {
        let parameter = Parameter { shape: vec![values.len()], values: values.into() };
        [("w", parameter)].into_iter().collect()
    }

    fn flat(set: &ParameterSet) -> Vec<f32> {
        set.get("w").unwrap().values.to_vec()
    }

    /// Returns the mean of clients with these values and Fishers over `base`.
    fn mean(base: &[f32], clients: &[(Vec<f32>, Vec<f32>)]) -> Vec<f32> {
        let one = |(value, fisher): &(Vec<f32>, Vec<f32>)| {
            let mut one = ElementwiseAverage::default();
            one.insert(&"w".into(), 0, (base, value, fisher));
            one
        };
        let all = clients.iter().map(one).reduce(ElementwiseAverage::merge).unwrap();
        flat(&all.apply(set(base)))
    }

    fn close(a: &[f32], b: &[f32]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 * (1.0 + b.abs()))
    }

    prop_compose! {
        fn clients()(clients in prop::collection::vec(
            (prop::collection::vec(-3f32..3.0, N), prop::collection::vec(1e-3f32..3.0, N)), 1..6))
        -> Vec<(Vec<f32>, Vec<f32>)> {
            clients
        }
    }

    proptest! {
        /// FisherAVG card, invariants 2 and 4: between the clients' numbers, blind to their order and to a common
        /// scale.
        #[test]
        fn a_mean_by_number_is_convex(
            base in prop::collection::vec(-3f32..3.0, N),
            clients in clients(),
            scale in 0.5f32..100.0,
        ) {
            let found = mean(&base, &clients);
            for (at, value) in found.iter().enumerate() {
                let all = clients.iter().map(|(values, _)| values[at]);
                let (low, high) = all.fold((f32::MAX, f32::MIN), |(l, h), v| (l.min(v), h.max(v)));
                prop_assert!(low - 1e-5 <= *value && *value <= high + 1e-5);
            }
            let mut other = clients.clone();
            other.reverse();
            prop_assert!(close(&mean(&base, &other), &found));
            let of = |(value, fisher): &(Vec<f32>, Vec<f32>)| {
                (value.clone(), fisher.iter().map(|f| scale * f).collect())
            };
            let scaled: Vec<_> = clients.iter().map(of).collect();
            prop_assert!(close(&mean(&base, &scaled), &found));
        }

        /// Invariant 6: the quotient of sums does not depend on the reference of the differences.
        #[test]
        fn the_reference_does_not_matter(
            one in prop::collection::vec(-3f32..3.0, N),
            other in prop::collection::vec(-3f32..3.0, N),
            clients in clients(),
        ) {
            let found = mean(&one, &clients);
            prop_assert!(close(&mean(&other, &clients), &found));
            for (at, value) in found.iter().enumerate() {
                let sum = |of: fn(f64, f64) -> f64| -> f64 {
                    clients.iter().map(|(v, f)| of(f64::from(v[at]), f64::from(f[at]) + 1e-12)).sum()
                };
                let quotient = sum(|value, weight| weight * value) / sum(|_, weight| weight);
                prop_assert!((f64::from(*value) - quotient).abs() < 1e-6);
            }
        }

        /// Invariants 1 and 5: equal Fishers give the plain mean, those in proportion to samples FedAvg's; a client
        /// alone, or several that agree, are left as they are, to the bit.
        #[test]
        fn constant_weights_are_those_of_fedavg(
            base in prop::collection::vec(-3f32..3.0, N),
            clients in prop::collection::vec((1u16..500, prop::collection::vec(-3f32..3.0, N)), 1..6),
            fishers in clients(),
        ) {
            for by_samples in [false, true] {
                let share = |n: u16| if by_samples { f32::from(n) } else { 7.0 };
                let fisher = clients.iter().map(|(n, v)| (v.clone(), vec![0.5 * share(*n); N]));
                let plain = clients.iter().map(|(n, v)| {
                    ParameterAverage::one(f64::from(share(*n)), &set(&base), &set(v)).unwrap()
                });
                let plain = plain.reduce(ParameterAverage::merge).unwrap().apply(&set(&base));
                prop_assert!(close(&mean(&base, &fisher.collect::<Vec<_>>()), &flat(&plain)));
            }
            let agreed: Vec<_> =
                fishers.iter().map(|(_, f)| (clients[0].1.clone(), f.clone())).collect();
            prop_assert_eq!(&mean(&base, &agreed), &clients[0].1);
            prop_assert_eq!(&mean(&base, &agreed[..1]), &clients[0].1);
        }
    }

    /// Invariant 3: the clients that a number matters to decide it; if it matters to none, all count alike.
    #[test]
    fn the_larger_fisher_wins_and_none_is_the_plain_mean() {
        let one = (vec![1.0, 1.0, 1.0], vec![1e9, 0.0, -3.0]);
        let other = (vec![2.0, 4.0, 4.0], vec![1e-3, 0.0, 0.0]);
        let third = (vec![2.0, 4.0, 4.0], vec![0.0; 3]);
        let found = mean(&[0.0; 3], &[one, other, third]);
        assert!((found[0] - 1.0).abs() < 1e-6 && close(&found[1..], &[3.0, 3.0]), "{found:?}");
    }

    #[test]
    fn unsent_rows_stay_and_others_are_means_of_their_senders() {
        let (name, base): (Arc<str>, _) = ("w".into(), [9.0f32, 0.0, 0.0, 9.0]);
        let (mut one, mut other) = (ElementwiseAverage::default(), ElementwiseAverage::default());
        one.insert(&name, 1, (&[0.0], &[2.0], &[1.0]));
        other.insert(&name, 1, (&[0.0, 0.0], &[4.0, 5.0], &[3.0, 1.0]));
        let both = one.clone().merge(other.clone()).apply(set(&base));
        assert_eq!(flat(&both), [9.0, 3.5, 5.0, 9.0]);
        assert_eq!(flat(&other.merge(one).apply(set(&base))), [9.0, 3.5, 5.0, 9.0]);
    }

    #[test]
    fn a_discounted_upload_moves_less_and_counts_as_much() {
        let upload = |value: f32, factor: f64| {
            let mut one = ElementwiseAverage::default();
            one.insert(&"w".into(), 0, (&[0.0], &[value], &[1.0]));
            one.discounted(factor)
        };
        assert_eq!(flat(&upload(4.0, 0.5).apply(set(&[1.0]))), [3.0]);
        let both = upload(4.0, 0.5).merge(upload(4.0, 1.0));
        assert!(close(&flat(&both.apply(set(&[0.0]))), &[3.0]));
    }

    #[test]
    fn golden_fisher_merge() {
        let Some(golden) = Golden::open("statistics") else { return };
        let narrow = |name: &str| -> Vec<f32> {
            golden.f64(name).into_iter().map(|value| value as f32).collect()
        };
        let (theta, fisher) = (narrow("fisher.theta"), narrow("fisher.F"));
        let clients: Vec<_> = (theta.chunks(20).zip(fisher.chunks(20)))
            .map(|(theta, fisher)| (theta.to_vec(), fisher.to_vec()))
            .collect();
        golden.assert_close_f32("fisher.merged", &mean(&[0.25; 20], &clients));
    }
}
