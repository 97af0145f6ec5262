//! Class-aware aggregation: components are mixed with those that match the same classes.

use std::collections::BTreeSet;

use clap::ValueEnum;

use crate::numerics::affinity::{Affinity, Counting, RowScale};
use crate::scenario::reader::Choice;

/// Form of the score rows that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Scores {
    /// Means over samples and blocks, in rows of unit length; a negative mean is set to 0.
    ///
    /// The number of samples of a client has no effect, and a component that mostly points away from a class has no
    /// entry for it.
    Means,
    /// Sums over samples and blocks, without normalization.
    ///
    /// As the review describes it. Rows of many samples dominate, and at a temperature of 1 a component keeps itself or
    /// goes with the longest row.
    Sums,
}

impl Scores {
    /// Returns the form of the counts that clients report.
    pub fn counting(self) -> Counting {
        match self {
            Scores::Means => Counting::default(),
            Scores::Sums => {
                Counting { mean_over_samples: false, mean_over_layers: false, clipped: false }
            }
        }
    }

    fn row_scale(self) -> RowScale {
        match self {
            Scores::Means => RowScale::Unit,
            Scores::Sums => RowScale::Raw,
        }
    }
}

/// Scores of a client task's components for its classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The client task's classes, as ids of the data set.
    pub classes: Vec<u32>,
    /// Scores, `(components, classes)`, row-major.
    pub scores: Vec<f32>,
}

/// Returns the mixing weights `W` between the components of all client tasks.
///
/// The histograms are compared over the classes of all client tasks; a client task without a class has zeros for it.
pub fn affinity(histograms: &[Histogram], scores: Scores, temperature: f64) -> Affinity {
    let all: BTreeSet<u32> =
        histograms.iter().flat_map(|histogram| histogram.classes.iter().copied()).collect();
    let columns: Vec<u32> = all.into_iter().collect();
    let mut rows = Vec::new();
    for Histogram { classes, scores: of_components } in histograms {
        let places: Vec<usize> =
            classes.iter().filter_map(|class| columns.binary_search(class).ok()).collect();
        for scores in of_components.chunks(classes.len().max(1)) {
            let mut row = vec![0f64; columns.len()];
            places.iter().zip(scores).for_each(|(place, score)| row[*place] = f64::from(*score));
            rows.extend(row);
        }
    }
    Affinity::of(&rows, columns.len(), scores.row_scale(), temperature)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(classes: &[u32], scores: &[f32]) -> Histogram {
        Histogram { classes: classes.into(), scores: scores.into() }
    }

    fn two() -> [Histogram; 2] {
        [histogram(&[5, 1], &[0.1, 0.9, 0.7, 0.2]), histogram(&[5, 8], &[0.3, 0.3, 0.0, 0.4])]
    }

    const ROWS: [f32; 8] = [1.0, 2.0, -3.0, 4.0, 0.5, 0.25, 7.0, -1.0];

    /// C2Prompt's card, invariant 3: the order of clients does not matter.
    #[test]
    fn clients_may_change_places() {
        let mine = affinity(&two(), Scores::Means, 0.3).mix(&ROWS, 2);
        let [a, b] = two();
        let swapped: Vec<f32> = [&ROWS[4..], &ROWS[..4]].concat();
        let theirs = affinity(&[b, a], Scores::Means, 0.3).mix(&swapped, 2);
        for (mine, theirs) in mine.iter().zip(theirs[4..].iter().chain(&theirs[..4])) {
            assert!((mine - theirs).abs() < 1e-6);
        }
    }

    #[test]
    fn components_that_share_no_class_are_as_far_as_can_be() {
        let weights = affinity(&two(), Scores::Means, 0.05);
        // The last component matches only class 8, the first one mostly class 1.
        assert!(weights.weights(3)[0] < 1e-7);
        assert!(weights.weights(2)[1] > 1e-4); // both match class 5
    }
}
