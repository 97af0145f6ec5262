//! Dense algebra of symmetric matrices in f64: Cholesky factors, solutions, eigenvectors.
//!
//! Products and loops have a fixed order of operations, so that results have the same bits on every CPU, regardless of
//! its vectors, caches and number of cores. Eigenvalues are accurate to a few units of rounding of the largest one, and
//! eigenvectors are orthogonal to 1e-13.
//!
//! ```
//! use fedcast::numerics::dense::{Cholesky, Eigen};
//! use fedcast::numerics::symmetric::Symmetric;
//! let matrix = Symmetric::from_full(2, &[2.0, 1.0, 1.0, 2.0]).unwrap();
//! let factor = Cholesky::of(&matrix)?;
//! let x = factor.solve(&[3.0, 3.0]); // one right-hand side
//! assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-15));
//! let eigen = Eigen::of(&matrix)?;
//! assert!((eigen.values[0] - 1.0).abs() < 1e-15 && (eigen.values[1] - 3.0).abs() < 1e-15);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cholesky;
mod eigen;
mod lanes;
mod solve;
#[cfg(test)]
mod tests;

pub use cholesky::{Cholesky, NotPositiveDefinite};
pub use eigen::{Eigen, EigenError, eigenvalues};
