//! Eigenvalues and eigenvectors of a symmetric matrix.
//!
//! ```text
//! A = Q T Q^T        Householder reflectors to a tridiagonal matrix
//! T = U D U^T        QL with implicit shifts
//! rows of U^T Q^T    eigenvectors
//! ```

mod ql;
mod reflectors;
mod rotations;
mod tridiagonal;

use ql::ql;
use rotations::Rotated;
use tridiagonal::{Tridiagonal, tridiagonal};

use crate::numerics::symmetric::Symmetric;
use crate::numerics::wide::{WideWork, wide};

/// Reason why a matrix has no computed eigenvalues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EigenError {
    /// Matrix with an entry that is NaN or infinite, or an eigenvalue beyond f64.
    #[error(
        "symmetric matrix of order {order}: entries or eigenvalues are not finite\n  help: look \
         for the client whose features or weights diverged"
    )]
    NotFinite {
        /// Number of rows of the matrix.
        order: usize,
    },
    /// Matrix for which QL took too many sweeps.
    #[error(
        "symmetric matrix of order {order}: the QL algorithm did not converge\n  help: report \
         the matrix as a bug; every finite one should converge"
    )]
    NotConverged {
        /// Number of rows of the matrix.
        order: usize,
    },
}

/// Eigenvalues of a symmetric matrix and their eigenvectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Eigen {
    /// Eigenvalues, ascending.
    pub values: Vec<f64>,
    /// Orthonormal eigenvectors `(order, order)`, row-major; row `k` belongs to `values[k]`.
    pub vectors: Vec<f64>,
}

impl Eigen {
    /// Computes eigenvalues and eigenvectors in `O(order^3)`.
    ///
    /// # Errors
    /// Returns an error if entries or eigenvalues are not finite, or the algorithm does not converge.
    pub fn of(matrix: &Symmetric) -> Result<Eigen, EigenError> {
        wide(Decomposition { matrix, has_vectors: true })
    }
}

/// Returns the eigenvalues, ascending, with the bits of [`Eigen::of`] in less than half of its time.
///
/// # Errors
/// Returns an error if entries or eigenvalues are not finite, or the algorithm does not converge.
pub fn eigenvalues(matrix: &Symmetric) -> Result<Vec<f64>, EigenError> {
    wide(Decomposition { matrix, has_vectors: false }).map(|eigen| eigen.values)
}

struct Decomposition<'a> {
    matrix: &'a Symmetric,
    has_vectors: bool,
}

impl WideWork for Decomposition<'_> {
    type Answer = Result<Eigen, EigenError>;

    #[inline(always)]
    fn run(self) -> Self::Answer {
        let Decomposition { matrix, has_vectors } = self;
        let order = matrix.order();
        if matrix.packed().iter().any(|entry| !entry.is_finite()) {
            return Err(EigenError::NotFinite { order });
        }
        let PowerOfTwoScale { down, up } = PowerOfTwoScale::of(matrix.packed());
        let mut lower = matrix.lower();
        lower.iter_mut().for_each(|entry| *entry *= down);
        let Tridiagonal { mut diagonal, mut below, reflectors } = tridiagonal(order, lower);
        // A closure would be a separate function, compiled for the baseline.
        let mut rotated = None;
        if has_vectors {
            rotated = Some(Rotated::new(order, &reflectors.product()));
        }
        if !ql(&mut diagonal, &mut below, rotated.as_mut()) {
            return Err(EigenError::NotConverged { order });
        }
        let mut ascending: Vec<usize> = (0..order).collect();
        ascending.sort_by(|i, j| diagonal[*i].total_cmp(&diagonal[*j]));
        let values: Vec<f64> = ascending.iter().map(|at| up * diagonal[*at]).collect();
        if values.iter().any(|value| !value.is_finite()) {
            return Err(EigenError::NotFinite { order });
        }
        let vectors = rotated.map(|rotated| rotated.rows(&ascending)).unwrap_or_default();
        Ok(Eigen { values, vectors })
    }
}

/// Factors, powers of two, that bring the largest entry near one and back.
struct PowerOfTwoScale {
    down: f64,
    up: f64,
}

impl PowerOfTwoScale {
    fn of(entries: &[f64]) -> PowerOfTwoScale {
        let largest = entries.iter().fold(0.0, |most: f64, entry| most.max(entry.abs()));
        // The exponent of both factors must be that of a normal number.
        let exponent = ((largest.to_bits() >> 52) as i32 - 1023).clamp(-1022, 1022);
        let power = |exponent: i32| f64::from_bits(((1023 + exponent) as u64) << 52);
        PowerOfTwoScale { down: power(-exponent), up: power(exponent) }
    }
}
