//! Mean and standard deviation of a metric over seeds.

use serde::Serialize;

use crate::document::Document;

/// Mean and sample standard deviation of a metric over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Document)]
pub struct Spread {
    /// Number of runs that have the metric.
    pub n: usize,
    /// Mean over these runs.
    pub mean: f64,
    /// Sample standard deviation (divisor `n - 1`); `None` for a single run.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Computes mean and deviation of values; `None` without values.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        // Starts from 0, so that the mean of zeros is not -0.
        let mean = values.iter().fold(0.0, |sum, value| sum + value) / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        Some(Spread { n, mean, deviation })
    }

    /// Returns one spread per list of `(seed, value)`, over the seeds that all lists have.
    ///
    /// Empty lists do not count. Means over different seeds cannot be compared. `None` for empty lists, and if no seed is shared.
    pub fn over_shared_seeds<S: PartialEq>(figures: &[Vec<(S, f64)>]) -> Vec<Option<Spread>> {
        let has = |figures: &[(S, f64)], seed: &S| figures.iter().any(|(other, _)| other == seed);
        let is_shared = |seed: &S| figures.iter().all(|other| other.is_empty() || has(other, seed));
        let spread = |figures: &Vec<(S, f64)>| {
            let shared = figures.iter().filter(|(seed, _)| is_shared(seed));
            Spread::of(&shared.map(|(_, figure)| *figure).collect::<Vec<_>>())
        };
        figures.iter().map(spread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        // 2, 4, 9: mean 5, squares 9 + 1 + 16 = 26, over 2.
        let spread = Spread::of(&[2.0, 4.0, 9.0]).unwrap();
        assert_eq!((spread.n, spread.mean), (3, 5.0));
        assert!((spread.deviation.unwrap() - 13f64.sqrt()).abs() < 1e-12);
        assert_eq!(Spread::of(&[4.0]), Some(Spread { n: 1, mean: 4.0, deviation: None }));
        assert_eq!(Spread::of(&[]), None);
        assert!(Spread::of(&[-0.0, -0.0]).unwrap().mean.is_sign_positive());
    }

    #[test]
    fn seeds_that_one_list_lacks_are_left_out() {
        let figures = [vec![(1, 2.0), (2, 4.0), (3, 90.0)], vec![], vec![(2, 7.0), (1, 5.0)]];
        let means = |figures: &[Vec<(u64, f64)>]| -> Vec<Option<f64>> {
            let spreads = Spread::over_shared_seeds(figures);
            spreads.into_iter().map(|spread| spread.map(|spread| spread.mean)).collect()
        };
        assert_eq!(means(&figures), [Some(3.0), None, Some(6.0)]);
        assert_eq!(means(&[vec![(1, 2.0)], vec![(2, 3.0)]]), [None, None]);
    }
}
