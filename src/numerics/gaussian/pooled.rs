//! Gaussians of classes from the moments of clients: the law of total variance (C²Prompt, round 0).

use super::{DiagonalGaussian, mixture_moments};

/// Moments of a class's samples in an upload: count, mean, and biased variance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassMoments {
    /// Number of samples.
    pub count: u64,
    /// Mean, `(dim,)`.
    pub mean: Vec<f64>,
    /// Variance divided by the number of samples, `(dim,)`.
    pub variance: Vec<f64>,
}

impl ClassMoments {
    /// Returns the moments of rows of length `dim`.
    pub fn fit<T: Copy + Into<f64>>(
        dim: usize,
        rows: impl IntoIterator<Item = impl AsRef<[T]>>,
    ) -> ClassMoments {
        let fitted = DiagonalGaussian::fit(dim, rows);
        let variance = fitted.biased_variance();
        ClassMoments { count: fitted.count, mean: fitted.mean, variance }
    }

    /// Returns the moments of all clients' samples together, however they are divided among clients. They are `mu =
    /// sum_k p_k mu_k` and `var = sum_k p_k (mu_k^2 + var_k) - mu^2` with `p_k = n_k / sum n`. The variance is computed
    /// around `mu`, so that it is never negative. Without samples the moments are zero.
    ///
    /// ```
    /// use fedcast::numerics::gaussian::ClassMoments;
    /// let rows = [[1.0f32], [2.0], [6.0]];
    /// let some = ClassMoments::fit(1, rows[..1].iter());
    /// let rest = ClassMoments::fit(1, rows[1..].iter());
    /// let all = ClassMoments::pooled(1, &[some, rest]);
    /// assert_eq!((all.count, all.mean[0]), (3, 3.0));
    /// assert!((all.variance[0] - 14.0 / 3.0).abs() < 1e-12);
    /// ```
    pub fn pooled(dim: usize, clients: &[ClassMoments]) -> ClassMoments {
        let count: u64 = clients.iter().map(|client| client.count).sum();
        let held = clients.iter().filter(|client| client.count > 0);
        let parts = held.map(|client| {
            let weight = client.count as f64 / count as f64;
            (weight, &client.mean[..], &client.variance[..])
        });
        let (mean, variance) = mixture_moments(dim, parts, 1.0);
        ClassMoments { count, mean, variance }
    }
}
