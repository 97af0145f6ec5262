//! Inputs of a generator: labels in proportion to counts, and noise.

use candle_core::{Device, Result, Tensor};

use crate::numerics::distributions::{Categorical, fill_normal};
use crate::numerics::streams::StreamKey;

/// Distribution of a generator's inputs: labels in proportion to reported counts, and standard normal noise.
#[derive(Clone, Debug)]
pub struct Conditions {
    distribution: Categorical,
    noise: usize,
}

/// Conditions of a batch of pseudo-queries.
#[derive(Clone, Debug)]
pub struct ConditionBatch {
    /// Labels of the batch, as head rows.
    pub labels: Vec<u32>,
    /// Standard normal noise, `(b, noise)`.
    pub noise: Tensor,
}

impl Conditions {
    /// Creates conditions from samples per head row, with noise of width `noise`. `None` if all counts are 0.
    pub fn new(counts: &[u64], noise: usize) -> Option<Conditions> {
        let weights: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
        Some(Conditions { distribution: Categorical::new(&weights)?, noise })
    }

    /// Draws `size` labels, then their noise, from one stream.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn draw(&self, size: usize, key: StreamKey) -> Result<ConditionBatch> {
        let rng = &mut key.rng();
        let labels = (0..size).map(|_| self.distribution.sample(rng) as u32).collect();
        let mut noise = vec![0.0; size * self.noise];
        fill_normal(rng, &mut noise);
        let noise = Tensor::from_vec(noise, (size, self.noise), &Device::Cpu)?;
        Ok(ConditionBatch { labels, noise })
    }
}
