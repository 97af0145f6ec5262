//! STSA-E's estimate of the Gram matrix from class sums and counts of units.
//!
//! For a class with `U` units of `n_j` samples, sums `s_j`, means `m_j`, in all `N` samples with sum
//! `P` and mean `m`:
//! ```text
//! (N - 1) / (U - 1) * sum_j n_j (m_j - m)(m_j - m)^T  +  P P^T / N
//! ```
//! The scatter between units, rescaled from `U - 1` to `N - 1` degrees of freedom, stands for the
//! scatter within the class. Unbiased where units are random parts of a class, equal to the Gram
//! matrix where every unit holds one sample, positive semidefinite always, and free
//! of the cancellation of the paper's form, which is the same number.

use super::class_sums::ClassSums;
use super::config::{Estimation, OneUnit, UnitCount};
use crate::numerics::symmetric::{Gram, Symmetric};

/// Statistics of the classes of a task from one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitStatistics {
    /// Sums of features by class.
    pub sums: ClassSums,
    /// Number of samples by class.
    pub counts: Vec<f64>,
}

impl UnitStatistics {
    /// Returns a unit without samples.
    pub fn empty(classes: usize, width: usize) -> UnitStatistics {
        UnitStatistics { sums: ClassSums::zeros(classes, width), counts: vec![0.0; classes] }
    }

    /// Adds the features of a sample of class `class`.
    pub fn add(&mut self, features: &[f64], class: usize) {
        self.counts[class] += 1.0;
        self.sums.row_mut(class).iter_mut().zip(features).for_each(|(sum, h)| *sum += h);
    }
}

/// Returns the estimate of a task's Gram matrix from its units.
///
/// `all` is the number of parts into which clients were cut, including those without samples; [`UnitCount::Total`]
/// takes it for `U`.
pub fn estimate(
    units: &[UnitStatistics],
    all: usize,
    width: usize,
    rule: &Estimation,
) -> Symmetric {
    let classes = units.iter().map(|unit| unit.counts.len()).max().unwrap_or(0);
    let classes: Vec<ClassUnits<'_>> =
        (0..classes).map(|class| ClassUnits::of(units, class)).collect();
    let pooled = match rule.one_unit {
        OneUnit::Mean => 0.0,
        OneUnit::Pooled => pooled_weight(&classes),
    };
    let mut gram = Gram::new(width);
    for class in classes.iter().filter(|class| class.total > 0.0) {
        let (scatter, mean) = match rule.unit_count {
            UnitCount::Nonempty => class.weights(class.units.len() as f64),
            UnitCount::Total => class.weights(all as f64),
        };
        gram.add(&class.rows(scatter + pooled, mean, width));
    }
    gram.finish()
}

/// Units that hold a class, with its number of samples.
struct ClassUnits<'a> {
    /// Samples and sums `(n_j, s_j)` of the units.
    units: Vec<(f64, &'a [f64])>,
    /// Number of samples `N` in these units.
    total: f64,
}

impl<'a> ClassUnits<'a> {
    /// Collects the units that hold at least one sample of a class, also if counts have noise.
    ///
    /// `N` and `P` are those of these units.
    fn of(units: &'a [UnitStatistics], class: usize) -> ClassUnits<'a> {
        let held = units.iter().filter(|unit| unit.counts.get(class).is_some_and(|n| *n >= 1.0));
        let units: Vec<_> = held.map(|unit| (unit.counts[class], unit.sums.row(class))).collect();
        let total = units.iter().map(|(n, _)| n).sum();
        ClassUnits { units, total }
    }

    /// Returns the weights of the scatter and of `P P^T` for this number of units.
    ///
    /// They are clamped at zero, as in the code, if there are more units than samples.
    fn weights(&self, units: f64) -> (f64, f64) {
        let n = self.total;
        if units <= 1.0 {
            return (0.0, 1.0 / n);
        }
        let a = ((n - 1.0) / (units - 1.0)).max(0.0);
        let b = ((n - units) / ((units - 1.0) * n)).max(0.0);
        (a, (a / n - b).max(0.0))
    }

    /// Returns rows whose outer products sum to `scatter sum_j n_j (m_j - m)(m_j - m)^T + mean P P^T`.
    fn rows(&self, scatter: f64, mean: f64, width: usize) -> Vec<f64> {
        let mut sum = vec![0.0; width];
        for (_, s) in &self.units {
            sum.iter_mut().zip(*s).for_each(|(sum, s)| *sum += s);
        }
        let mut rows = Vec::with_capacity((self.units.len() + 1) * width);
        for (n, s) in &self.units {
            let weight = (scatter * n).sqrt();
            rows.extend(sum.iter().zip(*s).map(|(p, s)| weight * (s / n - p / self.total)));
        }
        rows.extend(sum.iter().map(|p| mean.sqrt() * p));
        rows
    }
}

/// Returns the weight to add to every class's scatter on behalf of classes with a single unit.
///
/// Their `N - 1` degrees of freedom get the covariance pooled over the others, `sum scatter / sum (U - 1)`.
fn pooled_weight(classes: &[ClassUnits<'_>]) -> f64 {
    let alone = classes.iter().filter(|class| class.units.len() == 1);
    let missing: f64 = alone.map(|class| class.total - 1.0).sum();
    let known: f64 = classes.iter().map(|class| class.units.len().saturating_sub(1) as f64).sum();
    if known > 0.0 { missing / known } else { 0.0 }
}
