//! Robust aggregation: rules other than the weighted mean, against malicious clients.
//!
//! The uploads may hold only parameters that are averaged. A mean over the clients of one task is replaced by the other
//! rule over the same clients.
//!
//! | rule | treatment of the differences to the download | memory |
//! |---|---|---|
//! | [`Mean`](AggregationRule::Mean) | their mean, weighted as the method says | one update per level of the tree |
//! | [`Median`](AggregationRule::Median) | number by number the median, **unweighted** | all updates of a round, in f64 |
//! | [`TrimmedMean`](AggregationRule::TrimmedMean) | number by number, without a fraction of the smallest and of the largest, the weighted mean of the others | as the median |
//! | [`NormClipped`](AggregationRule::NormClipped) | every update longer than the norm is shortened to it; their weighted mean | as the mean |
//!
//! Median and trimmed mean: Yin et al., "Byzantine-Robust Distributed Learning", ICML 2018; clipping: Sun et al., "Can
//! You Really Backdoor Federated Learning?", 2019. Clients report their own weights, so a median that counted them
//! could be bought with a lie; in the other two rules they count, because without trimming and clipping those are the
//! mean. A number that a client did not send (a head row of another task) counts as unchanged, as in the mean.
//!
//! The rule's metrics are among those of a round: `fold_updates`, and `fold_trimmed` (updates left out of every
//! number), `fold_clipped` and `fold_largest_norm`.

use std::collections::BTreeSet;

use crate::numerics::robust::{median, trimmed_mean};
use crate::numerics::share::share_of;
use crate::policy::{Aggregate, AveragingGroup, ParameterAverage};
pub use crate::scenario::AggregationRule;

/// Metrics of an aggregation, in a fixed order.
pub(super) type RobustMetrics = Vec<(&'static str, f64)>;

impl AggregationRule {
    /// Returns the number of updates left out at either end of `updates`.
    pub(crate) fn cut(trim: f64, updates: usize) -> usize {
        share_of(updates, trim).min(updates.saturating_sub(1) / 2)
    }
}

/// Updates that a robust rule will aggregate.
pub struct Updates {
    /// Updates in participant order; clipped updates are merged already.
    parts: Vec<Aggregate>,
    updates: u32,
    clipped: u32,
    largest: f64,
}

impl Updates {
    /// Creates the updates of one upload; clips it if the rule does.
    pub fn one(rule: AggregationRule, mut part: Aggregate) -> Updates {
        let (mut clipped, mut largest) = (0, 0.0);
        if let AggregationRule::NormClipped { norm } = rule {
            largest = part.means.values().map(ParameterAverage::squared_norm).sum::<f64>().sqrt();
            if largest > norm {
                clipped = 1;
                for average in part.means.values_mut() {
                    *average = std::mem::take(average).discounted(norm / largest);
                }
            }
        }
        Updates { parts: vec![part], updates: 1, clipped, largest }
    }

    /// Merges the updates of later participants.
    pub fn merge(mut self, rule: AggregationRule, later: Updates) -> Updates {
        self.updates += later.updates;
        self.clipped += later.clipped;
        self.largest = self.largest.max(later.largest);
        match (rule, self.parts.pop(), later.parts) {
            (AggregationRule::NormClipped { .. }, Some(mine), mut theirs) if !theirs.is_empty() => {
                self.parts.push(mine.merge(theirs.remove(0)));
            }
            (_, last, theirs) => self.parts.extend(last.into_iter().chain(theirs)),
        }
        self
    }

    /// Aggregates the updates by the rule; returns also the rule's metrics.
    pub fn aggregate(self, rule: AggregationRule) -> (Option<Aggregate>, RobustMetrics) {
        let Updates { parts, updates, clipped, largest } = self;
        let mut metrics = vec![("fold_updates", f64::from(updates))];
        let aggregate = match rule {
            AggregationRule::Mean => parts.into_iter().reduce(Aggregate::merge),
            AggregationRule::NormClipped { .. } => {
                metrics.push(("fold_clipped", f64::from(clipped)));
                metrics.push(("fold_largest_norm", largest));
                parts.into_iter().reduce(Aggregate::merge)
            }
            AggregationRule::Median => {
                Some(by_number(parts, |updates| ParameterAverage::by_number(updates, median)))
            }
            AggregationRule::TrimmedMean { trim_fraction: trim } => {
                let mut most = 0;
                let aggregate = by_number(parts, |updates| {
                    let cut = AggregationRule::cut(trim, updates.len());
                    most = most.max(cut);
                    ParameterAverage::by_number(updates, |numbers| trimmed_mean(numbers, cut))
                });
                metrics.push(("fold_trimmed", 2.0 * most as f64));
                Some(aggregate)
            }
        };
        (aggregate, metrics)
    }
}

/// Computes every group's mean by another rule, over the updates that contribute to the group.
fn by_number(
    parts: Vec<Aggregate>,
    mut mean: impl FnMut(&[ParameterAverage]) -> ParameterAverage,
) -> Aggregate {
    let groups: BTreeSet<AveragingGroup> =
        parts.iter().flat_map(|part| part.means.keys().copied()).collect();
    let mut aggregate = Aggregate::default();
    let mut parts = parts;
    for group in groups {
        let own = parts.iter_mut().filter_map(|part| part.means.remove(&group));
        // An update without weight does not count, not even in a median.
        let own: Vec<ParameterAverage> = own.filter(|average| average.weight() > 0.0).collect();
        aggregate.means.insert(group, mean(&own));
    }
    aggregate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Parameter, ParameterSet};
    use proptest::prelude::*;

    const N: usize = 5;

    fn set(values: &[f32]) -> ParameterSet {
        let parameter = Parameter { shape: vec![values.len()], values: values.into() };
        [("a", parameter)].into_iter().collect()
    }

    type Update = (u32, Vec<f32>);

    /// Returns a model of zeros after the aggregation, and the metrics.
    fn aggregate(rule: AggregationRule, updates: &[Update]) -> (Vec<f32>, RobustMetrics) {
        let base = set(&[0.0; N]);
        let all = updates.iter().map(|(weight, values)| {
            let mean = ParameterAverage::one(f64::from(*weight), &base, &set(values)).unwrap();
            let part =
                Aggregate { means: [(AveragingGroup::All, mean)].into(), ..Aggregate::default() };
            Updates::one(rule, part)
        });
        let all = all.reduce(|a, b| a.merge(rule, b)).unwrap();
        let (aggregate, metrics) = all.aggregate(rule);
        (aggregate.unwrap().apply(&base).get("a").unwrap().values.to_vec(), metrics)
    }

    fn close(a: &[f32], b: &[f32]) -> bool {
        a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-6 * (1.0 + b.abs()))
    }

    fn updates() -> impl Strategy<Value = Vec<Update>> {
        prop::collection::vec((1u32..500, prop::collection::vec(-3f32..3.0, N)), 1..9)
    }

    proptest! {
        /// Equal to a tolerance: the mean adds in a tree, the trimmed mean in the order of values.
        #[test]
        fn without_trimming_the_trimmed_mean_is_the_mean(updates in updates()) {
            let (mean, _) = aggregate(AggregationRule::Mean, &updates);
            let (trimmed, metrics) = aggregate(AggregationRule::TrimmedMean { trim_fraction: 0.0 }, &updates);
            prop_assert!(close(&trimmed, &mean));
            prop_assert_eq!(metrics[1], ("fold_trimmed", 0.0));
        }

        /// Equal to the bit.
        #[test]
        fn without_a_limit_the_clipped_mean_is_the_mean(updates in updates()) {
            let (mean, _) = aggregate(AggregationRule::Mean, &updates);
            let (clipped, metrics) = aggregate(AggregationRule::NormClipped { norm: f64::INFINITY }, &updates);
            prop_assert_eq!(clipped, mean);
            prop_assert_eq!(metrics[1], ("fold_clipped", 0.0));
        }

        /// Equal to the bit for the rules that sort; clipped updates are added in participant order.
        #[test]
        fn the_order_of_clients_changes_nothing(updates in updates(), turn in 0usize..9) {
            let mut turned = updates.clone();
            turned.rotate_left(turn % updates.len());
            for rule in [AggregationRule::Median, AggregationRule::TrimmedMean { trim_fraction: 0.2 }] {
                prop_assert_eq!(aggregate(rule, &turned), aggregate(rule, &updates));
            }
            let clip = AggregationRule::NormClipped { norm: 2.0 };
            prop_assert!(close(&aggregate(clip, &turned).0, &aggregate(clip, &updates).0));
        }

        /// The median stays among the honest values, whatever a minority sends and claims as weight.
        ///
        /// So does a mean that trims as many. A clipped liar moves a number by its fraction of the norm at most.
        #[test]
        fn liars_in_the_minority_move_nothing_out_of_the_honest(
            honest in updates(),
            lie in -1e6f32..1e6,
        ) {
            let liars = (honest.len() - 1) / 2;
            let mut all = honest.clone();
            all.extend(vec![(1_000_000, vec![lie; N]); liars]);
            let trim = liars as f64 / all.len() as f64;
            for rule in [AggregationRule::Median, AggregationRule::TrimmedMean { trim_fraction: trim }] {
                for (at, value) in aggregate(rule, &all).0.iter().enumerate() {
                    let reported = honest.iter().map(|(_, values)| values[at]);
                    let (low, high) =
                        reported.fold((f32::MAX, f32::MIN), |(l, h), v| (l.min(v), h.max(v)));
                    // A lie that is as small as the truth may be taken for it.
                    let (low, high) = match lie.abs() < 3.0 {
                        true => (low.min(lie), high.max(lie)),
                        false => (low, high),
                    };
                    prop_assert!(low - 1e-5 <= *value && *value <= high + 1e-5);
                }
            }
            let (clipped, _) = aggregate(AggregationRule::NormClipped { norm: 1.0 }, &all);
            let length = clipped.iter().map(|v| v * v).sum::<f32>().sqrt();
            prop_assert!(length <= 1.0 + 1e-5);
        }
    }

    #[test]
    fn figures_say_what_a_rule_did() {
        let updates: Vec<Update> =
            [1.0, 2.0, 3.0, 4.0, 100.0].map(|value| (1, vec![value, 0.0, 0.0, 0.0, 0.0])).into();
        let first = |rule| {
            let (values, metrics) = aggregate(rule, &updates);
            (values[0], metrics[1..].to_vec())
        };
        assert_eq!(first(AggregationRule::Median), (3.0, vec![]));
        let trimmed = AggregationRule::TrimmedMean { trim_fraction: 0.2 };
        assert_eq!(first(trimmed), (3.0, vec![("fold_trimmed", 2.0)]));
        let clipped = AggregationRule::NormClipped { norm: 3.0 };
        let metrics = vec![("fold_clipped", 2.0), ("fold_largest_norm", 100.0)];
        assert_eq!(first(clipped), (2.4, metrics));
        // That many cannot be left out of three.
        assert_eq!(AggregationRule::cut(0.49, 3), 1);
        assert_eq!(AggregationRule::cut(0.49, 1), 0);
        assert_eq!(AggregationRule::cut(0.3, 10), 3);
    }
}
