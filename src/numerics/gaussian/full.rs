//! Gaussian with a full covariance.

use super::{DiagonalGaussian, GaussianError, Sampler};
use crate::numerics::dense::Cholesky;
use crate::numerics::products::{Matrix, Target};
use crate::numerics::symmetric::Symmetric;

/// Gaussian with a full covariance. With 768 dimensions it takes 4.7 MB.
#[derive(Clone, Debug, PartialEq)]
pub struct FullGaussian {
    /// Number of samples from which it was estimated.
    pub count: u64,
    /// Mean, `(dim,)`.
    pub mean: Vec<f64>,
    /// Unbiased covariance, `(dim, dim)`, symmetric; zeros with fewer than two samples.
    pub covariance: Vec<f64>,
}

impl FullGaussian {
    /// Returns the mean and unbiased covariance of rows of length `dim`.
    ///
    /// It takes one pass for the mean, and one matrix product of the centered rows on this thread.
    pub fn fit<T: Copy + Into<f64>>(dim: usize, rows: &[impl AsRef<[T]>]) -> FullGaussian {
        let DiagonalGaussian { count, mean, .. } =
            DiagonalGaussian::fit(dim, rows.iter().map(AsRef::as_ref));
        let mut centered = Vec::with_capacity(rows.len() * dim);
        for row in rows.iter().map(AsRef::as_ref) {
            centered.extend(row.iter().zip(&mean).map(|(x, mean)| Into::<f64>::into(*x) - mean));
        }
        let centered = Matrix::dense(&centered, rows.len(), dim);
        let scale = 1.0 / count.saturating_sub(1).max(1) as f64;
        let mut covariance = vec![0.0; dim * dim];
        let lower = Target::dense(&mut covariance, dim, dim);
        lower.add_lower(scale, centered.t(), centered);
        for i in 0..dim {
            for j in 0..i {
                covariance[j * dim + i] = covariance[i * dim + j];
            }
        }
        FullGaussian { count, mean, covariance }
    }

    /// Returns the number of dimensions.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Returns the Gaussian of both sets of samples together; see [`DiagonalGaussian::merge`].
    ///
    /// A part of one sample changes the mean and adds its distance to the covariance, so that the merge is exact
    /// although it has no covariance itself.
    pub fn merge(&self, other: &FullGaussian) -> FullGaussian {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other.clone() } else { self.clone() };
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let share = b / (a + b);
        let gap: Vec<f64> = other.mean.iter().zip(&self.mean).map(|(y, x)| y - x).collect();
        let mean = self.mean.iter().zip(&gap).map(|(m, g)| m + g * share).collect();
        let dim = self.dim();
        let covariance = (0..dim * dim)
            .map(|at| {
                let between = gap[at / dim] * gap[at % dim] * a * share;
                let within = (a - 1.0) * self.covariance[at] + (b - 1.0) * other.covariance[at];
                (within + between) / (a + b - 1.0)
            })
            .collect();
        FullGaussian { count: self.count + other.count, mean, covariance }
    }

    /// Returns the lower triangle row by row, `dim (dim + 1) / 2` numbers, as messages carry it.
    pub fn packed(&self) -> Vec<f64> {
        let dim = self.dim();
        (0..dim).flat_map(|i| self.covariance[i * dim..=i * dim + i].iter().copied()).collect()
    }

    /// Reverses [`FullGaussian::packed`]; `None` if the lengths do not fit together.
    pub fn from_packed(count: u64, mean: Vec<f64>, packed: &[f64]) -> Option<FullGaussian> {
        let dim = mean.len();
        if packed.len() != dim * (dim + 1) / 2 {
            return None;
        }
        let at = |i: usize, j: usize| packed[i * (i + 1) / 2 + j];
        let covariance =
            (0..dim * dim).map(|k| at((k / dim).max(k % dim), (k / dim).min(k % dim))).collect();
        Some(FullGaussian { count, mean, covariance })
    }

    /// Returns a sampler of `N(mean, inflation * covariance)`.
    ///
    /// A covariance from fewer samples than dimensions is singular. So a value is added to its diagonal, which starts
    /// at `jitter` times the diagonal's mean and grows tenfold until the Cholesky factor exists, up to the mean itself.
    pub fn sampler(&self, inflation: f64, jitter: f64) -> Result<Sampler, GaussianError> {
        let dim = self.dim();
        let invalid = self.mean.iter().chain(&self.covariance).find(|v| !v.is_finite());
        if let Some(v) = invalid {
            return Err(GaussianError::Invalid(*v));
        }
        let level = (0..dim).map(|i| self.covariance[i * dim + i]).sum::<f64>() / dim.max(1) as f64;
        if level == 0.0 {
            return Sampler::diagonal(&self.mean, vec![0.0; dim]); // all samples are equal
        }
        let mut added = jitter.max(1e-15) * level;
        loop {
            let shifted = Symmetric::from_packed(dim, self.packed());
            let mut shifted = shifted.expect("a lower triangle");
            shifted.add_to_diagonal(added);
            let mut inflated = Symmetric::zeros(dim);
            inflated.add_scaled(inflation, &shifted);
            if let Ok(factor) = Cholesky::of(&inflated) {
                let row = |i: usize| factor.lower()[i * dim..][..=i].iter().copied();
                return Ok(Sampler::factor(&self.mean, (0..dim).flat_map(row).collect()));
            }
            if added >= level {
                let (count, jitter) = (self.count, added);
                return Err(GaussianError::NotPositiveDefinite { dim, count, jitter });
            }
            added *= 10.0;
        }
    }
}
