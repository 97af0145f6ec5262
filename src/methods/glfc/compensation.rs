//! Gradient compensation: a weight for every sample of a batch, so that no group of classes dominates the others.
//!
//! ```text
//! g_i = |sigmoid(z_i,y) - 1|^e;   w_i = sum over the groups G that i is in of  g_i / mean_{j in G} g_j
//!
//! GLFC    groups: new samples, samples of learned classes;  e = 1
//! LGA     groups: new samples, learned classes of every earlier task;  e = t / (t + 1), w clamped to 0.5..5
//! ```
//! All weights are 1 until a client has learned a class. Learned classes are the client's own: an exemplar is of a
//! learned class, whatever the current task is.

use std::collections::BTreeMap;

use clap::ValueEnum;

use crate::learning::losses::sigmoid;
use crate::scenario::reader::Choice;

/// Groups of learned classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Groups {
    /// Classes of one earlier task (the intent of LGA).
    Task,
    /// Classes of an earlier task and of all before it.
    ///
    /// As in the release of LGA, where a sample of the first task counts once for every task since.
    Cumulative,
}

/// Balance of the samples' weights in the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// All weights are 1.
    None,
    /// New classes against all learned ones (GLFC).
    Learned,
    /// New classes against each earlier task separately (LGA).
    Tasks(Groups),
}

/// Range of weights with LGA.
const CLAMP: (f64, f64) = (0.5, 5.0);

/// Head rows that a client has learned, each with its task from 0.
pub(super) type LearnedRows = BTreeMap<u32, usize>;

impl Balance {
    /// Returns `|sigmoid(z) - 1|^e` of the logit `z` of every sample's own class, in task `task` from 0.
    pub(super) fn surprise(self, own: impl Iterator<Item = f32>, task: usize) -> Vec<f64> {
        let exponent = match self {
            Balance::Tasks(_) if task > 0 => task as f64 / (task + 1) as f64,
            _ => 1.0,
        };
        own.map(|z| libm::pow((sigmoid(z) - 1.0).abs(), exponent)).collect()
    }

    /// Returns the weights of samples with these labels before clamping.
    pub(super) fn shares(
        self,
        surprise: &[f64],
        labels: &[u32],
        learned: &LearnedRows,
        task: usize,
    ) -> Vec<f64> {
        if self == Balance::None || learned.is_empty() {
            return vec![1.0; labels.len()];
        }
        let old: Vec<Option<usize>> =
            labels.iter().map(|label| learned.get(label).copied()).collect();
        let mut shares = vec![0.0; labels.len()];
        let mut group = |is_in: &dyn Fn(Option<usize>) -> bool| {
            let members: Vec<usize> = (0..old.len()).filter(|at| is_in(old[*at])).collect();
            let mean = members.iter().map(|at| surprise[*at]).sum::<f64>() / members.len() as f64;
            for at in members {
                // If all samples of a group have gradient zero, they have equal weights.
                shares[at] += if mean > 0.0 { surprise[at] / mean } else { 1.0 };
            }
        };
        group(&|old| old.is_none());
        match self {
            Balance::None | Balance::Learned => group(&|old| old.is_some()),
            Balance::Tasks(Groups::Task) => {
                (0..task).for_each(|one| group(&|old| old == Some(one)))
            }
            Balance::Tasks(Groups::Cumulative) => {
                (0..task).for_each(|one| group(&|old| old.is_some_and(|old| old <= one)))
            }
        }
        shares
    }

    /// Returns the weights of samples with these labels; `own` are the logits of their own classes.
    pub(super) fn weights(
        self,
        own: impl Iterator<Item = f32>,
        labels: &[u32],
        learned: &LearnedRows,
        task: usize,
    ) -> Vec<f64> {
        let mut weights = self.shares(&self.surprise(own, task), labels, learned, task);
        if matches!(self, Balance::Tasks(_)) {
            weights.iter_mut().for_each(|weight| *weight = weight.clamp(CLAMP.0, CLAMP.1));
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(n: usize) -> Vec<f32> {
        (0..n).map(|i| 2.0 * (1.7 * i as f32).sin()).collect()
    }

    fn weights(
        balance: Balance,
        labels: &[u32],
        learned: &[(u32, usize)],
        task: usize,
    ) -> Vec<f64> {
        let learned = learned.iter().copied().collect();
        balance.weights(own(labels.len()).into_iter(), labels, &learned, task)
    }

    /// GLFC card, invariant 1 and subtlety 4: the weights of each group have mean 1.
    #[test]
    fn every_group_has_mean_one() {
        let labels = [0, 5, 1, 6, 5, 7, 0, 4];
        let learned = [(0, 0), (1, 0)];
        let found = weights(Balance::Learned, &labels, &learned, 1);
        let mean = |old: bool| {
            let own = labels.iter().zip(&found).filter(|(label, _)| (**label < 2) == old);
            let own: Vec<f64> = own.map(|(_, weight)| *weight).collect();
            own.iter().sum::<f64>() / own.len() as f64
        };
        assert!((mean(true) - 1.0).abs() < 1e-12 && (mean(false) - 1.0).abs() < 1e-12);
        assert!(found.iter().any(|weight| (weight - 1.0).abs() > 0.1));
        // The only old sample of a batch has weight 1. All have weight 1 if no class is learned, or without balance.
        assert_eq!(weights(Balance::Learned, &[5, 6, 1], &learned, 1)[2], 1.0);
        assert_eq!(weights(Balance::Learned, &labels, &[], 1), [1.0; 8]);
        assert_eq!(weights(Balance::None, &labels, &learned, 1), [1.0; 8]);
    }

    /// LGA card, invariants 2 to 4.
    #[test]
    fn earlier_tasks_are_balanced_by_themselves() {
        let labels = [0, 9, 3, 6, 1, 9, 3, 10, 6, 0, 7, 11];
        let learned = [(0, 0), (1, 0), (3, 1), (6, 2), (7, 2)];
        let map: LearnedRows = learned.into_iter().collect();
        let [task, cumulative] = [Groups::Task, Groups::Cumulative].map(Balance::Tasks);
        let surprise = task.surprise(own(12).into_iter(), 3);
        let shares = task.shares(&surprise, &labels, &map, 3);
        for group in [vec![1, 5, 7, 11], vec![0, 4, 9], vec![2, 6], vec![3, 8, 10]] {
            let mean = group.iter().map(|at| shares[*at]).sum::<f64>() / group.len() as f64;
            assert!((mean - 1.0).abs() < 1e-12, "{group:?} {mean}");
        }
        let clamped = weights(task, &labels, &learned, 3);
        assert!(clamped.iter().all(|weight| (0.5..=5.0).contains(weight)));
        // If all samples are equally hard, one of task s has weight 1, or t - s with cumulative groups.
        let alike = |balance: Balance| balance.shares(&[0.3; 12], &labels, &map, 3);
        assert!(alike(task).iter().all(|weight| (weight - 1.0).abs() < 1e-12));
        let times = labels.map(|label| map.get(&label).map_or(1.0, |task| (3 - task) as f64));
        let found = alike(cumulative);
        assert!(found.iter().zip(times).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        // After one task there is one group of old classes.
        let two: Vec<u32> = labels.iter().map(|label| label % 6).collect();
        let of = |balance| weights(balance, &two, &[(0, 0), (1, 0)], 1);
        assert_eq!(of(task), of(cumulative));
        // The exponent grows towards 1.
        let exponent = |t| task.surprise([0.0f32].into_iter(), t)[0].log(0.5);
        let all = [0, 1, 2, 9].map(exponent);
        for (found, wanted) in all.into_iter().zip([1.0, 0.5, 2.0 / 3.0, 0.9]) {
            assert!((found - wanted).abs() < 1e-12);
        }
    }

    #[test]
    fn unsurprising_samples_weigh_alike() {
        let found =
            Balance::Learned.shares(&[0.0, 0.0, 0.2, 0.6], &[0, 0, 5, 5], &[(0, 0)].into(), 1);
        let wanted = [1.0, 1.0, 0.5, 1.5];
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    }
}
