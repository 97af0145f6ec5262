//! Regression mean: the linear layer that best reproduces the outputs of all clients' layers on their own inputs
//! (RegMean, Jin et al. 2023).
//!
//! ```text
//! W = (sum_m W_m G_m) (sum_m G_m)^+        minimizes  sum_m |X_m (W - W_m)^T|^2,   G_m = X_m^T X_m
//! ```
//! Weights are `(out, in)`, row-major. `G` is a symmetric matrix or its diagonal. The pseudo-inverse treats eigenvalues
//! as zero that may be rounding errors of zero, so that a direction in which no client has inputs gets weight zero.
//! These errors are far larger for a matrix that was sent as f32 than for one that was summed in f64, see
//! [`SecondMoments::rounding`].
//!
//! ```
//! use fedcast::numerics::regression_mean::{SecondMoments, regression_mean};
//! // One output, two inputs: clients of weights (1, 5) and (3, 7) that saw them with energies (1, 1) and (3, 0).
//! let (one, other) = (SecondMoments::Diagonal(vec![1.0, 1.0]), SecondMoments::Diagonal(vec![3.0, 0.0]));
//! let mut sum = one.after(&[1.0, 5.0]);
//! sum.iter_mut().zip(other.after(&[3.0, 7.0])).for_each(|(sum, own)| *sum += own);
//! let total = SecondMoments::Diagonal(vec![4.0, 1.0]);
//! assert_eq!(regression_mean(&sum, &total, 0.0)?, [2.5, 5.0]);
//! # Ok::<(), fedcast::numerics::regression_mean::NotFinite>(())
//! ```

use super::dense::Eigen;
use super::products::{Matrix, Target};
use super::symmetric::Symmetric;

/// Relative size of eigenvalues that count as zero, as rounding in f64 leaves them.
///
/// It is multiplied by the largest eigenvalue and the order of the matrix.
const CUT_OFF: f64 = 1e-15;

/// Error of a sum that holds NaN or infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "second moments or weights hold a value that is not finite; look for a client that diverged"
)]
pub struct NotFinite;

/// Second moments of a layer's inputs: sums, not means.
#[derive(Clone, Debug, PartialEq)]
pub enum SecondMoments {
    /// Moments of each input.
    Diagonal(Vec<f64>),
    /// Moments of all pairs of inputs.
    Full(Symmetric),
}

impl SecondMoments {
    /// Returns the number of inputs.
    pub fn order(&self) -> usize {
        match self {
            SecondMoments::Diagonal(diagonal) => diagonal.len(),
            SecondMoments::Full(matrix) => matrix.order(),
        }
    }

    /// Returns the moments with off-diagonal entries times `gamma`; with 0 only the diagonal.
    pub fn shrunk(self, gamma: f64) -> SecondMoments {
        match self {
            SecondMoments::Full(matrix) if gamma == 0.0 => {
                SecondMoments::Diagonal((0..matrix.order()).map(|i| matrix.at(i, i)).collect())
            }
            SecondMoments::Full(matrix) if gamma != 1.0 => {
                let order = matrix.order();
                let entry = |i: usize, j: usize| match i == j {
                    true => matrix.at(i, j),
                    false => gamma * matrix.at(i, j),
                };
                let packed = (0..order).flat_map(|i| (0..=i).map(move |j| (i, j)));
                let packed = packed.map(|(i, j)| entry(i, j)).collect();
                let shrunk = Symmetric::from_packed(order, packed);
                SecondMoments::Full(shrunk.expect("a triangle of the same order"))
            }
            other => other,
        }
    }

    /// Returns `W G`, `(out, in)`, for weights `W`.
    pub fn after(&self, weights: &[f64]) -> Vec<f64> {
        match self {
            SecondMoments::Diagonal(diagonal) => {
                let energies = diagonal.iter().cycle();
                weights.iter().zip(energies).map(|(weight, energy)| weight * energy).collect()
            }
            SecondMoments::Full(matrix) => product(weights, square(&matrix.full(), matrix.order())),
        }
    }

    /// Returns the moments `A G A^T` of inputs mapped by `A` `(r, in)`, row-major. With these, the regression mean is
    /// that of layers after a common `A`, as in LoRM: `B = (sum_m B_m A G_m A^T) (A G A^T)^+`.
    pub fn through(&self, a: &[f64]) -> SecondMoments {
        let inputs = self.order();
        let rank = a.len() / inputs.max(1);
        let through = product(&self.after(a), Matrix::dense(a, rank, inputs).t());
        let matrix = Symmetric::from_full(rank, &through);
        SecondMoments::Full(matrix.expect("a square matrix of the rank"))
    }

    /// Returns a bound on changes of eigenvalues if every entry was rounded to this precision. It is `|E|_2 <=
    /// precision trace G`, as `|E_ij| <= precision |G_ij| <= precision sqrt(G_ii G_jj)`. For a diagonal the bound is 0,
    /// as rounding keeps zeros.
    pub fn rounding(&self, precision: f64) -> f64 {
        match self {
            SecondMoments::Diagonal(_) => 0.0,
            SecondMoments::Full(matrix) => precision * matrix.trace(),
        }
    }

    /// Returns that bound for [`through`](SecondMoments::through) `A`: `precision sum_k (sum_i |A_ki| sqrt G_ii)^2`.
    pub fn rounding_through(&self, a: &[f64], precision: f64) -> f64 {
        let SecondMoments::Full(matrix) = self else { return 0.0 };
        let lengths: Vec<f64> = (0..matrix.order()).map(|i| matrix.at(i, i).abs().sqrt()).collect();
        let of = |row: &[f64]| row.iter().zip(&lengths).map(|(a, length)| a.abs() * length).sum();
        let squared = |row: &[f64]| -> f64 { f64::powi(of(row), 2) };
        precision * a.chunks(lengths.len().max(1)).map(squared).sum::<f64>()
    }

    /// Adds other moments of the same form and order.
    ///
    /// # Panics
    /// Panics if the form or order differs.
    pub fn add(&mut self, other: &SecondMoments) {
        match (self, other) {
            (SecondMoments::Diagonal(own), SecondMoments::Diagonal(other))
                if own.len() == other.len() =>
            {
                own.iter_mut().zip(other).for_each(|(own, other)| *own += other);
            }
            (SecondMoments::Full(own), SecondMoments::Full(other)) => own.add(other),
            _ => panic!("moments of one layer are of one form"),
        }
    }

    fn is_finite(&self) -> bool {
        match self {
            SecondMoments::Diagonal(diagonal) => diagonal.iter().all(|value| value.is_finite()),
            SecondMoments::Full(matrix) => matrix.packed().iter().all(|value| value.is_finite()),
        }
    }
}

/// Returns `numerator G^+`, `(out, in)`, where the numerator is the sum of all clients' `W G`. Eigenvalues up to
/// `rounding` count as zero, as do rounding errors in f64.
///
/// # Errors
/// Returns an error if values are not finite.
pub fn regression_mean(
    numerator: &[f64],
    moments: &SecondMoments,
    rounding: f64,
) -> Result<Vec<f64>, NotFinite> {
    if !moments.is_finite() || numerator.iter().any(|value| !value.is_finite()) {
        return Err(NotFinite);
    }
    match moments {
        SecondMoments::Diagonal(diagonal) => {
            let least = least(diagonal.iter().copied(), diagonal.len()).max(rounding);
            let inverse = |energy: &f64| if *energy > least { 1.0 / energy } else { 0.0 };
            let inverse: Vec<f64> = diagonal.iter().map(inverse).collect();
            let inverses = inverse.iter().cycle();
            Ok(numerator.iter().zip(inverses).map(|(sum, inverse)| sum * inverse).collect())
        }
        SecondMoments::Full(matrix) => {
            let inverse = pseudo_inverse(matrix, rounding)?;
            Ok(product(numerator, square(&inverse, matrix.order())))
        }
    }
}

/// Returns the threshold below which values count as zero, relative to the largest one.
fn least(values: impl Iterator<Item = f64>, order: usize) -> f64 {
    values.fold(0.0, f64::max) * CUT_OFF * order as f64
}

/// Returns `G^+`, `(order, order)`, row-major.
fn pseudo_inverse(matrix: &Symmetric, rounding: f64) -> Result<Vec<f64>, NotFinite> {
    let order = matrix.order();
    let Eigen { values, vectors } = Eigen::of(matrix).map_err(|_| NotFinite)?;
    let least = least(values.iter().map(|value| value.abs()), order).max(rounding);
    let mut scaled = vectors.clone();
    for (vector, value) in scaled.chunks_exact_mut(order.max(1)).zip(&values) {
        let inverse = |entry: f64| if *value > least { entry / value } else { 0.0 };
        vector.iter_mut().for_each(|entry| *entry = inverse(*entry));
    }
    Ok(rows_of(square(&scaled, order).t(), square(&vectors, order)))
}

/// Returns a view of a square matrix, row-major.
fn square(full: &[f64], order: usize) -> Matrix<'_, f64> {
    Matrix::dense(full, order, order)
}

/// Returns the rows `(out, n)`, row-major, times an `(n, m)` matrix.
fn product(rows: &[f64], matrix: Matrix<'_, f64>) -> Vec<f64> {
    let inner = matrix.rows();
    rows_of(Matrix::dense(rows, rows.len() / inner.max(1), inner), matrix)
}

/// Returns `a b`, row-major.
fn rows_of(a: Matrix<'_, f64>, b: Matrix<'_, f64>) -> Vec<f64> {
    let (rows, columns) = (a.rows(), b.columns());
    let mut result = vec![0.0; rows * columns];
    Target::dense(&mut result, rows, columns).set(1.0, a, b);
    result
}

#[cfg(test)]
mod tests;
