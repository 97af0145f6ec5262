//! Ridge regression in closed form: `W^T = (G + lambda I)^-1 P`.
//!
//! ```
//! use fedcast::numerics::ridge::{Penalty, ridge};
//! use fedcast::numerics::symmetric::Symmetric;
//! let gram = Symmetric::from_full(2, &[2.0, 0.0, 0.0, 4.0]).unwrap();
//! let solution = ridge(&gram, &[3.0, 5.0], Penalty::Absolute(1.0), 0)?; // one class
//! assert!(solution.weights.iter().all(|weight| (weight - 1.0).abs() < 1e-12));
//! # Ok::<(), fedcast::numerics::ridge::RidgeError>(())
//! ```

use super::dense::Cholesky;
use super::symmetric::Symmetric;

/// Penalty `lambda` that is added to the diagonal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Penalty {
    /// Fixed penalty.
    Absolute(f64),
    /// Penalty relative to the mean of the diagonal, `tr(G) / D`.
    ///
    /// Its effect is the same for features of any scale and any number of samples.
    Relative(f64),
}

impl Penalty {
    /// Returns the penalty for a Gram matrix.
    pub fn of(self, gram: &Symmetric) -> f64 {
        match self {
            Penalty::Absolute(penalty) => penalty,
            Penalty::Relative(share) => share * mean_diagonal(gram),
        }
    }
}

/// Reason why there is no solution.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RidgeError {
    /// Sum that holds NaN or infinity.
    #[error("{0} holds a value that is not finite; look for a client whose features are not")]
    NotFinite(&'static str),
    /// Correlation that does not consist of rows of this number of features.
    #[error("a correlation of {got} values does not consist of rows of {order} features")]
    Shape {
        /// Number of rows of the Gram matrix.
        order: usize,
        /// Number of values found.
        got: usize,
    },
    /// Matrix without a Cholesky factor, even with the largest penalty.
    #[error(
        "the Gram matrix of {order} features is not positive definite even with {penalty:.1e} \
         added to its diagonal; raise lambda"
    )]
    NotPositiveDefinite {
        /// Number of rows of the matrix.
        order: usize,
        /// Last penalty that was tried.
        penalty: f64,
    },
}

/// Solution of a ridge regression.
#[derive(Clone, Debug, PartialEq)]
pub struct Ridge {
    /// Weights `W`, `(classes, D)`, row-major.
    pub weights: Vec<f64>,
    /// Penalty that was finally added to the diagonal.
    pub penalty: f64,
    /// Number of times that the penalty was raised.
    pub raised: u32,
}

/// Solves a ridge regression by Cholesky in f64. `correlation` is `P^T`, `(classes, D)`, row-major: with one-hot
/// targets the sum of the features of every class.
///
/// If `G + lambda I` has no Cholesky factor (an estimate that is not positive semidefinite, or lambda lost in rounding
/// next to G), lambda is raised tenfold, at most `raises` times; the first raise starts from at least 1e-12 of the mean
/// of the diagonal.
///
/// # Errors
/// Returns an error if values are not finite or do not fit, or if there is no factor after the last raise.
pub fn ridge(
    gram: &Symmetric,
    correlation: &[f64],
    penalty: Penalty,
    raises: u32,
) -> Result<Ridge, RidgeError> {
    let order = gram.order();
    if order == 0 || !correlation.len().is_multiple_of(order) {
        return Err(RidgeError::Shape { order, got: correlation.len() });
    }
    for (name, values) in [("the Gram matrix", gram.packed()), ("the correlation", correlation)] {
        if values.iter().any(|value| !value.is_finite()) {
            return Err(RidgeError::NotFinite(name));
        }
    }
    let mut penalty = penalty.of(gram);
    for raised in 0..=raises {
        if raised > 0 {
            penalty = 10.0 * penalty.max(1e-12 * mean_diagonal(gram));
        }
        let mut shifted = gram.clone();
        shifted.add_to_diagonal(penalty);
        let Ok(factor) = Cholesky::of(&shifted) else { continue };
        let weights = factor.solve(correlation);
        if weights.iter().all(|weight| weight.is_finite()) {
            return Ok(Ridge { weights, penalty, raised });
        }
    }
    Err(RidgeError::NotPositiveDefinite { order, penalty })
}

fn mean_diagonal(gram: &Symmetric) -> f64 {
    gram.trace() / gram.order().max(1) as f64
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use crate::numerics::symmetric::Gram;

    #[test]
    fn golden_heads() {
        let Some(golden) = Golden::open("stsa") else { return };
        let gram = Symmetric::from_full(64, &golden.f64("gram")).unwrap();
        let stored = golden.f64("corr"); // (64, 6)
        let correlation: Vec<f64> = (0..6 * 64).map(|at| stored[(at % 64) * 6 + at / 64]).collect();
        for (name, lambda) in [("1e-2", 1e-2), ("1", 1.0), ("1e4", 1e4)] {
            let found = ridge(&gram, &correlation, Penalty::Absolute(lambda), 0).unwrap();
            golden.assert_close(&format!("ridge.{name}.w"), &found.weights);
        }
    }

    fn sums() -> (Symmetric, Vec<f64>) {
        let rows: Vec<f64> = (0..60).map(|k| ((k * 37) % 19) as f64 / 7.0 - 1.0).collect();
        let mut gram = Gram::new(4);
        gram.add(&rows);
        let correlation = (0..4 * 2).map(|k| ((k * 5) % 7) as f64).collect();
        (gram.finish(), correlation)
    }

    /// Card of STSA, invariant 3.
    #[test]
    fn the_residual_vanishes_and_a_huge_penalty_leaves_the_correlation() {
        let (gram, correlation) = sums();
        for penalty in [Penalty::Absolute(0.3), Penalty::Relative(0.1)] {
            let found = ridge(&gram, &correlation, penalty, 0).unwrap();
            for (i, c) in [(0, 0), (2, 1), (3, 0)] {
                let product: f64 =
                    (0..4).map(|k| gram.at(i, k) * found.weights[c * 4 + k]).sum::<f64>();
                let left = product + found.penalty * found.weights[c * 4 + i];
                assert!((left - correlation[c * 4 + i]).abs() < 1e-10);
            }
        }
        let found = ridge(&gram, &correlation, Penalty::Absolute(1e12), 0).unwrap();
        for (i, c) in [(0, 0), (1, 1), (3, 1)] {
            let limit = correlation[c * 4 + i] / 1e12;
            assert!((found.weights[c * 4 + i] - limit).abs() <= 1e-9 / 1e12);
        }
    }

    #[test]
    fn a_matrix_without_a_factor_raises_the_penalty_and_says_so() {
        let singular = Symmetric::from_full(2, &[1.0, 1.0, 1.0, 1.0 - 1e-6]).unwrap();
        let once = ridge(&singular, &[1.0, 1.0], Penalty::Absolute(0.0), 0).unwrap_err();
        assert_eq!(once, RidgeError::NotPositiveDefinite { order: 2, penalty: 0.0 });
        assert!(once.to_string().contains("raise lambda"), "{once}");
        let found = ridge(&singular, &[1.0, 1.0], Penalty::Absolute(0.0), 9).unwrap();
        assert!(found.raised >= 5 && found.penalty >= 5e-7, "{found:?}");
        // The first raise is ten times 1e-12 of the mean of the diagonal, every other one ten times the last.
        let larger = Symmetric::from_full(2, &[4.0, 4.0, 4.0, 4.0 - 4e-6]).unwrap();
        let found = ridge(&larger, &[1.0, 1.0], Penalty::Absolute(0.0), 9).unwrap();
        let expected = 4e-12 * 10f64.powi(found.raised as i32);
        assert!((found.penalty / expected - 1.0).abs() < 1e-4, "{found:?}");
    }

    #[test]
    fn bad_sums_are_refused() {
        let gram = Symmetric::from_full(1, &[f64::NAN]).unwrap();
        let error = ridge(&gram, &[1.0], Penalty::Absolute(1.0), 3).unwrap_err();
        assert_eq!(error, RidgeError::NotFinite("the Gram matrix"));
        let error = ridge(&Symmetric::zeros(0), &[], Penalty::Absolute(1.0), 3).unwrap_err();
        assert_eq!(error, RidgeError::Shape { order: 0, got: 0 });
        let gram = Symmetric::zeros(2);
        let error = ridge(&gram, &[1.0], Penalty::Absolute(1.0), 3).unwrap_err();
        assert!(matches!(error, RidgeError::Shape { got: 1, .. }), "{error}");
    }
}
