//! The conditional generator of pseudo-queries: a label and noise in, a vector in query space out.
//!
//! ```text
//! [emb(y) | eps] -> Linear -> BatchNorm -> ReLU -> Linear -> BatchNorm -> ReLU -> Linear -> z
//! ```
//! It is made again in every round, trained for some hundred steps and thrown away.

use candle_core::{Device, Result, Tensor, Var};

use crate::model::ops::{self, BatchNormStatistics, ChannelAffine, ChannelMoments};
use crate::numerics::distributions::{fill_normal, uniform};
use crate::numerics::streams::StreamKey;

/// Weight of a batch in the running statistics (PyTorch's default).
const MOMENTUM: f64 = 0.1;
/// Epsilon of batch norms, PyTorch's default.
const EPS: f64 = 1e-5;

/// The sizes of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneratorShape {
    /// Rows of the table of embeddings: head rows.
    pub classes: usize,
    /// Width of an embedding.
    pub embedding: usize,
    /// Width of the noise.
    pub noise: usize,
    /// Widths of the two hidden layers.
    pub hidden: [usize; 2],
    /// Width of a query.
    pub dim: usize,
}

/// A generator in training, or trained.
#[derive(Debug)]
pub struct Generator {
    /// `(classes, embedding)`.
    pub(super) embedding: Var,
    pub(super) layers: [GeneratorLinear; 3],
    pub(super) norms: [GeneratorNorm; 2],
}

/// A linear layer.
#[derive(Debug)]
pub(super) struct GeneratorLinear {
    /// `(out, in)`.
    pub weight: Var,
    /// `(out)`.
    pub bias: Var,
}

/// Batch norm with running statistics that are its own.
#[derive(Debug)]
pub(super) struct GeneratorNorm {
    /// Scale `(c)`.
    pub weight: Var,
    /// Shift `(c)`.
    pub bias: Var,
    pub running: ChannelMoments,
}

impl Generator {
    /// Creates a generator with PyTorch's default start values: embeddings `N(0, 1)`, layers uniform on
    /// `±1/sqrt(inputs)`.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn new(shape: &GeneratorShape, key: StreamKey) -> Result<Generator> {
        let rng = &mut key.rng();
        let mut table = vec![0.0; shape.classes * shape.embedding];
        fill_normal(rng, &mut table);
        let mut layer = |inputs: usize, outputs: usize| -> Result<GeneratorLinear> {
            let bound = 1.0 / (inputs.max(1) as f64).sqrt();
            let mut draw = |count: usize| -> Vec<f32> {
                (0..count).map(|_| uniform(rng, -bound, bound) as f32).collect()
            };
            let (weight, bias) = (draw(outputs * inputs), draw(outputs));
            Ok(GeneratorLinear {
                weight: Var::from_vec(weight, (outputs, inputs), &Device::Cpu)?,
                bias: Var::from_vec(bias, outputs, &Device::Cpu)?,
            })
        };
        let [first, second] = shape.hidden;
        Ok(Generator {
            layers: [
                layer(shape.embedding + shape.noise, first)?,
                layer(first, second)?,
                layer(second, shape.dim)?,
            ],
            norms: [GeneratorNorm::new(first)?, GeneratorNorm::new(second)?],
            embedding: Var::from_vec(table, (shape.classes, shape.embedding), &Device::Cpu)?,
        })
    }

    /// Returns the trained variables.
    pub fn vars(&self) -> Vec<Var> {
        let layers = self.layers.iter().flat_map(|layer| [&layer.weight, &layer.bias]);
        let norms = self.norms.iter().flat_map(|norm| [&norm.weight, &norm.bias]);
        [&self.embedding].into_iter().chain(layers).chain(norms).cloned().collect()
    }

    /// Generates pseudo-queries `(b, d)` from labels (head rows) and noise `(b, noise)`, for training.
    ///
    /// Batch norms use the moments of this batch, which also update the running ones.
    ///
    /// # Errors
    /// When the inputs do not fit.
    pub fn train(&mut self, labels: &[u32], noise: &Tensor) -> Result<Tensor> {
        let mut x = self.input(labels, noise)?;
        for (layer, norm) in self.layers.iter().zip(&mut self.norms) {
            let hidden = layer.forward(&x)?;
            let moments = ops::channel_moments(&hidden)?;
            norm.remember(&moments)?;
            x = norm.forward(&hidden, BatchNormStatistics::Batch(&moments))?;
        }
        self.layers[2].forward(&x)
    }

    /// Generates pseudo-queries `(b, d)` with the running moments, without a gradient.
    ///
    /// # Errors
    /// When the inputs do not fit.
    pub fn generate(&self, labels: &[u32], noise: &Tensor) -> Result<Tensor> {
        let mut x = self.input(labels, noise)?;
        for (layer, norm) in self.layers.iter().zip(&self.norms) {
            x = norm.forward(&layer.forward(&x)?, BatchNormStatistics::Running(&norm.running))?;
        }
        Ok(self.layers[2].forward(&x)?.detach())
    }

    fn input(&self, labels: &[u32], noise: &Tensor) -> Result<Tensor> {
        let labels = Tensor::new(labels, &Device::Cpu)?;
        Tensor::cat(&[&self.embedding.index_select(&labels, 0)?, noise], 1)?.contiguous()
    }
}

impl GeneratorLinear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::linear(x, &self.weight, Some(&self.bias))
    }
}

impl GeneratorNorm {
    fn new(channels: usize) -> Result<GeneratorNorm> {
        let of = |value: f32| Tensor::full(value, channels, &Device::Cpu);
        let running = ChannelMoments { mean: of(0.0)?, variance: of(1.0)?, rows: 0 };
        let (weight, bias) = (Var::from_tensor(&of(1.0)?)?, Var::from_tensor(&of(0.0)?)?);
        Ok(GeneratorNorm { weight, bias, running })
    }

    /// Returns `relu(norm(x))` by these statistics, with the shape of `x`.
    fn forward(&self, x: &Tensor, statistics: BatchNormStatistics<'_>) -> Result<Tensor> {
        let affine = ChannelAffine { weight: &self.weight, bias: &self.bias, eps: EPS };
        ops::batch_norm(x, affine, statistics, None, true)
    }

    /// Updates the running moments with a batch.
    ///
    /// A batch of one row is ignored, since it has no unbiased variance.
    fn remember(&mut self, batch: &ChannelMoments) -> Result<()> {
        if batch.rows < 2 {
            return Ok(());
        }
        let unbiased = batch.rows as f64 / (batch.rows - 1) as f64;
        let mix = |old: &Tensor, new: &Tensor, scale: f64| {
            old.affine(1.0 - MOMENTUM, 0.0)? + new.affine(MOMENTUM * scale, 0.0)?
        };
        self.running.mean = mix(&self.running.mean, &batch.mean, 1.0)?;
        self.running.variance = mix(&self.running.variance, &batch.variance, unbiased)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A batch of two has a variance, one of one has none.
    #[test]
    fn two_rows_are_remembered_and_one_is_not() {
        let values = |tensor: &Tensor| tensor.to_vec1::<f32>().unwrap();
        let batch = |rows| {
            let of = |value: f32| Tensor::full(value, 3, &Device::Cpu).unwrap();
            ChannelMoments { mean: of(2.0), variance: of(3.0), rows }
        };
        let mut norm = GeneratorNorm::new(3).unwrap();
        norm.remember(&batch(1)).unwrap();
        assert_eq!(values(&norm.running.mean), [0.0; 3]);
        norm.remember(&batch(2)).unwrap();
        assert!(values(&norm.running.mean).iter().all(|mean| (mean - 0.2).abs() < 1e-6));
        // 0.9 of one and 0.1 of 3 x 2 / 1.
        assert!(values(&norm.running.variance).iter().all(|of| (of - 1.5).abs() < 1e-6));
    }
}
