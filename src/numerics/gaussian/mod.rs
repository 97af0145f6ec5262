//! Gaussians of features: one per class and client, fitted in f64, merged, mixed and drawn from.
//!
//! [`DiagonalGaussian`] keeps a variance per dimension, [`FullGaussian`] a covariance. Both use the unbiased estimate
//! (divided by `n - 1`), and both merge exactly: the merge of two clients' Gaussians is that of their samples together.
//!
//! ```
//! use fedcast::numerics::gaussian::DiagonalGaussian;
//! let rows = [[1.0f32, 5.0], [3.0, 5.0], [5.0, 5.0]];
//! let all = DiagonalGaussian::fit(2, rows.iter().map(|r| &r[..]));
//! assert_eq!((all.count, &all.mean[..], &all.variance[..]), (3, &[3.0, 5.0][..], &[4.0, 0.0][..]));
//! let some = DiagonalGaussian::fit(2, rows[..1].iter().map(|r| &r[..]));
//! let rest = DiagonalGaussian::fit(2, rows[1..].iter().map(|r| &r[..]));
//! assert_eq!(some.merge(&rest), all);
//! ```

mod draw;
mod full;
mod pooled;

pub use draw::Sampler;
pub use full::FullGaussian;
pub use pooled::ClassMoments;

/// Reason why a Gaussian cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GaussianError {
    /// Mean, variance or covariance that is NaN or infinite, or negative variance.
    #[error("a class statistic is {0}; look for a client whose features are not finite")]
    Invalid(f64),
    /// Covariance without a Cholesky factor, even with the largest jitter.
    #[error(
        "the covariance of {dim} dimensions from {count} samples is not positive definite even with \
         {jitter:.1e} added to its diagonal; use diagonal Gaussians"
    )]
    NotPositiveDefinite {
        /// Number of dimensions.
        dim: usize,
        /// Number of samples from which it was estimated.
        count: u64,
        /// Last jitter that was tried.
        jitter: f64,
    },
}

/// Gaussian with a diagonal covariance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiagonalGaussian {
    /// Number of samples from which it was estimated.
    pub count: u64,
    /// Mean, `(dim,)`.
    pub mean: Vec<f64>,
    /// Unbiased variance, `(dim,)`; zeros with fewer than two samples.
    pub variance: Vec<f64>,
}

impl DiagonalGaussian {
    /// Returns the mean and unbiased variance of rows of length `dim`, in one pass (Welford 1962).
    pub fn fit<T: Copy + Into<f64>>(
        dim: usize,
        rows: impl IntoIterator<Item = impl AsRef<[T]>>,
    ) -> DiagonalGaussian {
        let mut count = 0u64;
        let mut mean = vec![0.0; dim];
        let mut squares = vec![0.0; dim];
        for row in rows {
            count += 1;
            let n = count as f64;
            for ((x, mean), squares) in row.as_ref().iter().zip(&mut mean).zip(&mut squares) {
                let x: f64 = (*x).into();
                let before = x - *mean;
                *mean += before / n;
                *squares += before * (x - *mean);
            }
        }
        let divisor = count.saturating_sub(1).max(1) as f64;
        squares.iter_mut().for_each(|s| *s /= divisor);
        DiagonalGaussian { count, mean, variance: squares }
    }

    /// Returns the number of dimensions.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Returns the variance divided by `n` instead of `n - 1`.
    pub fn biased_variance(&self) -> Vec<f64> {
        let n = self.count.max(1) as f64;
        let scale = self.count.saturating_sub(1) as f64 / n;
        self.variance.iter().map(|v| v * scale).collect()
    }

    /// Returns the Gaussian of both sets of samples together (Chan, Golub and LeVeque 1979).
    pub fn merge(&self, other: &DiagonalGaussian) -> DiagonalGaussian {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other.clone() } else { self.clone() };
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let share = b / (a + b);
        let gap: Vec<f64> = other.mean.iter().zip(&self.mean).map(|(y, x)| y - x).collect();
        let mean = self.mean.iter().zip(&gap).map(|(m, g)| m + g * share).collect();
        let variances = self.variance.iter().zip(&other.variance).zip(&gap);
        let variance = variances
            .map(|((u, v), g)| ((a - 1.0) * u + (b - 1.0) * v + g * g * a * share) / (a + b - 1.0))
            .collect();
        DiagonalGaussian { count: self.count + other.count, mean, variance }
    }
}

/// Returns mean and variance, `(dim,)` each, of `sum_m weight_m N(mean_m, inflation * variance_m)`.
///
/// The weights must sum to one. The variance is `sum_m weight_m (inflation * variance_m + mean_m^2) - mean^2`, computed
/// around the mean.
pub fn mixture_moments<'a>(
    dim: usize,
    parts: impl IntoIterator<Item = (f64, &'a [f64], &'a [f64])> + Clone,
    inflation: f64,
) -> (Vec<f64>, Vec<f64>) {
    let mut mean = vec![0.0; dim];
    for (weight, part, _) in parts.clone() {
        mean.iter_mut().zip(part).for_each(|(m, p)| *m += weight * p);
    }
    let mut variance = vec![0.0; dim];
    for (weight, part, spread) in parts {
        for (i, v) in variance.iter_mut().enumerate() {
            let gap = part[i] - mean[i];
            *v += weight * (inflation * spread[i] + gap * gap);
        }
    }
    (mean, variance)
}

#[cfg(test)]
mod tests;
