//! Inputs of LANDER's generator: normalized label embeddings through repeatedly redrawn linear layers.

use candle_core::{Device, Tensor, Var};

use crate::model::norm::{NORM_EPS, Norm, RunningMoments};
use crate::model::{ModelError, Variables, ops};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;

/// Batch norm of label embeddings, and a linear layer for every block of samples.
///
/// Samples `i block .. (i + 1) block` of a batch pass the `i`-th layer. The norm uses the moments of the batch.
#[derive(Debug)]
pub struct LabelNoise {
    norm: Norm,
    layers: Vec<(Var, Var)>,
    /// Number of samples per layer.
    block: usize,
    variables: Variables,
}

impl LabelNoise {
    /// Returns the number of layers for a batch.
    pub fn layers_of(batch: usize, block: usize) -> usize {
        batch.div_ceil(block.max(1))
    }

    /// Returns layers from embeddings of width `inputs` to width `outputs`.
    ///
    /// They are zero until they are [drawn](LabelNoise::redraw).
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn new(
        (inputs, outputs): (usize, usize),
        (batch, block): (usize, usize),
        device: &Device,
    ) -> Result<LabelNoise, ModelError> {
        let filled = |shape: &[usize], value: f32| -> Result<Var, ModelError> {
            Ok(Var::from_tensor(&Tensor::full(value, shape, device)?)?)
        };
        let (weight, bias) = (filled(&[inputs], 1.0)?, filled(&[inputs], 0.0)?);
        let mut variables: Variables =
            vec![("n1.bias".into(), bias.clone()), ("n1.weight".into(), weight.clone())];
        let (mean, variance) =
            (Tensor::full(0f32, inputs, device)?, Tensor::full(1f32, inputs, device)?);
        let running = RunningMoments::of(mean, variance)?;
        let (weight, bias) = (weight.as_tensor().clone(), bias.as_tensor().clone());
        let norm = Norm { weight, bias, running, trains: true, eps: NORM_EPS };
        let mut layers = Vec::new();
        for layer in 0..LabelNoise::layers_of(batch, block) {
            let (weight, bias) = (filled(&[outputs, inputs], 0.0)?, filled(&[outputs], 0.0)?);
            variables.push((format!("le1.{layer}.weight").into(), weight.clone()));
            variables.push((format!("le1.{layer}.bias").into(), bias.clone()));
            layers.push((weight, bias));
        }
        Ok(LabelNoise { norm, layers, block: block.max(1), variables })
    }

    /// Draws the weights of all layers from a standard normal, and sets biases to zero.
    ///
    /// Each layer has its own stream, keyed by its name.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn redraw(&self, key: StreamKey) -> Result<(), ModelError> {
        for (layer, (weight, bias)) in self.layers.iter().enumerate() {
            let mut values = vec![0.0; weight.elem_count()];
            fill_normal(&mut key.named(&format!("le1.{layer}.weight")).rng(), &mut values);
            weight.set(&Tensor::from_vec(values, weight.shape().clone(), weight.device())?)?;
            bias.set(&bias.zeros_like()?)?;
        }
        Ok(())
    }

    /// Returns the variables with their names.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Returns inputs `(b, outputs)` of a generator for embeddings `(b, inputs)`.
    ///
    /// # Errors
    /// Returns an error if the batch needs more layers than there are.
    pub fn forward(&self, embeddings: &Tensor) -> Result<Tensor, ModelError> {
        let batch = embeddings.dim(0)?;
        if batch > self.block * self.layers.len() {
            let reason =
                format!("{batch} samples for {} layers of {}", self.layers.len(), self.block);
            return Err(ModelError::Input { reason });
        }
        let normed = self.norm.forward(embeddings, None, false)?;
        let of = |(layer, (weight, bias)): (usize, &(Var, Var))| {
            let start = layer * self.block;
            let rows = normed.narrow(0, start, self.block.min(batch - start))?.contiguous()?;
            ops::linear(&rows, weight, Some(bias))
        };
        let used = self.layers.iter().enumerate().take(LabelNoise::layers_of(batch, self.block));
        let parts = used.map(of).collect::<candle_core::Result<Vec<_>>>()?;
        Ok(Tensor::cat(&parts, 0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    fn key(step: u32) -> StreamKey {
        StreamKey::new(4, Domain::Method).round(step)
    }

    fn embeddings(rows: usize) -> Tensor {
        let values: Vec<f32> = (0..rows * 3).map(|i| (i as f32 * 1.3).sin()).collect();
        Tensor::from_vec(values, (rows, 3), &Device::Cpu).unwrap()
    }

    /// LANDER card, section 2: 26 layers for 256 samples in blocks of 10.
    #[test]
    fn every_block_has_its_layer() -> Result<(), ModelError> {
        assert_eq!([LabelNoise::layers_of(256, 10), LabelNoise::layers_of(20, 10)], [26, 2]);
        let noise = LabelNoise::new((3, 2), (5, 2), &Device::Cpu)?;
        noise.redraw(key(0))?;
        assert_eq!(noise.layers.len(), 3);
        let x = embeddings(5);
        let all = noise.forward(&x)?.to_vec2::<f32>()?;
        // The moments of the batch, and the layer of the block; without a bias at first.
        let rows = x.to_vec2::<f32>()?;
        let mean = |c: usize| rows.iter().map(|row| f64::from(row[c])).sum::<f64>() / 5.0;
        let spread =
            |c: usize| rows.iter().map(|row| (f64::from(row[c]) - mean(c)).powi(2)).sum::<f64>();
        for (row, got) in all.iter().enumerate() {
            let weight = noise.layers[row / 2].0.to_vec2::<f32>()?;
            for (output, got) in got.iter().enumerate() {
                let of = |c: usize| {
                    let normed =
                        (f64::from(rows[row][c]) - mean(c)) / (spread(c) / 5.0 + 1e-5).sqrt();
                    normed * f64::from(weight[output][c])
                };
                let wanted: f64 = (0..3).map(of).sum();
                assert!((f64::from(*got) - wanted).abs() < 1e-5, "{got} {wanted}");
            }
        }
        assert!(noise.forward(&embeddings(7)).is_err());
        Ok(())
    }

    #[test]
    fn draws_differ_by_layer_and_call_and_repeat() -> Result<(), ModelError> {
        let noise = LabelNoise::new((30, 20), (4, 2), &Device::Cpu)?;
        let drawn = |step| -> Result<Vec<Vec<f32>>, ModelError> {
            noise.redraw(key(step))?;
            let layers = noise.layers.iter();
            Ok(layers.map(|(w, _)| w.flatten_all()?.to_vec1()).collect::<Result<_, _>>()?)
        };
        let first = drawn(0)?;
        noise.layers[0].1.set(&Tensor::full(2f32, 20, &Device::Cpu)?)?;
        assert_ne!(first[0], first[1]);
        assert_ne!(first, drawn(1)?);
        assert_eq!(first, drawn(0)?);
        assert_eq!(noise.layers[0].1.to_vec1::<f32>()?, [0.0; 20], "biases are reset");
        let square = first[0].iter().map(|w| w * w).sum::<f32>() / 600.0;
        assert!((square - 1.0).abs() < 0.2, "of variance one: {square}");
        assert_eq!(noise.variables().len(), 2 + 4);
        Ok(())
    }
}
