//! Draws of features from a Gaussian.

use rand::RngCore;

use super::{DiagonalGaussian, GaussianError};
use crate::numerics::distributions::normal_pair;

/// Gaussian prepared for many draws.
#[derive(Clone, Debug)]
pub struct Sampler {
    mean: Vec<f64>,
    spread: SamplerSpread,
}

#[derive(Clone, Debug)]
enum SamplerSpread {
    /// Standard deviations, `(dim,)`.
    Diagonal(Vec<f64>),
    /// Lower Cholesky factor, row by row.
    Factor(Vec<f64>),
}

impl DiagonalGaussian {
    /// Returns a sampler of `N(mean, inflation * variance + added)`. HGP uses inflation 3 and adds 1e-8.
    pub fn sampler(&self, inflation: f64, added: f64) -> Result<Sampler, GaussianError> {
        let variance = self.variance.iter().map(|v| inflation * v + added).collect();
        Sampler::diagonal(&self.mean, variance)
    }
}

impl Sampler {
    /// Returns a sampler of independent dimensions with these variances.
    ///
    /// # Errors
    /// Returns an error if a variance is negative, or any value is not finite.
    pub fn diagonal(mean: &[f64], variance: Vec<f64>) -> Result<Sampler, GaussianError> {
        let bad = mean.iter().find(|m| !m.is_finite());
        if let Some(v) = bad.or(variance.iter().find(|v| !v.is_finite() || **v < 0.0)) {
            return Err(GaussianError::Invalid(*v));
        }
        let deviation = variance.into_iter().map(f64::sqrt).collect();
        Ok(Sampler { mean: mean.to_vec(), spread: SamplerSpread::Diagonal(deviation) })
    }

    pub(super) fn factor(mean: &[f64], lower: Vec<f64>) -> Sampler {
        Sampler { mean: mean.to_vec(), spread: SamplerSpread::Factor(lower) }
    }

    /// Returns the number of dimensions.
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// Writes the feature for standard normals `noise` (dim,): `mean + sqrt(variance) noise` or `mean + L noise`.
    pub fn place(&self, noise: &[f64], out: &mut [f32]) {
        match &self.spread {
            SamplerSpread::Diagonal(deviation) => {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = (self.mean[i] + deviation[i] * noise[i]) as f32;
                }
            }
            SamplerSpread::Factor(lower) => {
                let mut rest = &lower[..];
                for (i, out) in out.iter_mut().enumerate() {
                    let (row, after) = rest.split_at(i + 1);
                    let shift: f64 = row.iter().zip(noise).map(|(l, e)| l * e).sum();
                    *out = (self.mean[i] + shift) as f32;
                    rest = after;
                }
            }
        }
    }

    /// Draws one feature, `(dim,)`.
    ///
    /// It takes `dim` words, one more if `dim` is odd. `scratch` is reused between calls.
    pub fn draw(&self, rng: &mut impl RngCore, scratch: &mut Vec<f64>, out: &mut [f32]) {
        scratch.resize(self.dim().next_multiple_of(2), 0.0);
        for pair in scratch.chunks_exact_mut(2) {
            (pair[0], pair[1]) = normal_pair(rng);
        }
        self.place(scratch, out);
    }
}
