//! Generator of an AC-GAN: a linear layer and transposed convolutions.

use candle_core::{Device, Tensor, Var};

use super::AcGanConfig;
use super::config::GanLayer;
use super::layers::{GanParts, GanWeights};
use crate::model::ModelError;
use crate::model::norm::Norm;
use crate::model::ops;
use crate::model::parameters::{ParameterSet, Variables};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;

/// Generator, frozen or over variables. It always normalizes by the moments of its batch.
#[derive(Clone, Debug)]
pub struct AcGenerator {
    config: AcGanConfig,
    linear: GanWeights,
    first: Option<Norm>,
    layers: Vec<(GanLayer, GanWeights, Option<Norm>)>,
    variables: Variables,
}

impl AcGanConfig {
    /// Draws noise `(labels, noise)`: one-hot labels in the first columns, standard normals in the others.
    ///
    /// # Errors
    /// Returns an error if a label is beyond the classes, the noise is no wider than there are classes, or the device
    /// has no room.
    pub fn noise_of(
        &self,
        labels: &[u32],
        key: StreamKey,
        device: &Device,
    ) -> Result<Tensor, ModelError> {
        let AcGanConfig { noise, classes, .. } = *self;
        if noise <= classes || labels.iter().any(|label| *label as usize >= classes) {
            let reason =
                format!("noise of {noise} numbers for labels {labels:?} of {classes} classes");
            return Err(ModelError::Input { reason });
        }
        let mut values = vec![0.0; labels.len() * noise];
        fill_normal(&mut key.rng(), &mut values);
        for (row, label) in values.chunks_exact_mut(noise).zip(labels) {
            row[..classes].fill(0.0);
            row[*label as usize] = 1.0;
        }
        Ok(Tensor::from_vec(values, (labels.len(), noise), device)?)
    }
}

impl AcGenerator {
    /// Returns a generator with these parameters that does not train.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing or of another shape.
    pub fn frozen(
        config: AcGanConfig,
        set: &ParameterSet,
        device: &Device,
    ) -> Result<AcGenerator, ModelError> {
        AcGenerator::assemble(config, set, device, false)
    }

    pub(super) fn assemble(
        config: AcGanConfig,
        set: &ParameterSet,
        device: &Device,
        trains: bool,
    ) -> Result<AcGenerator, ModelError> {
        for (name, shape) in config.generator_shapes() {
            set.expect("generator", &name, &shape)?;
        }
        let mut parts = GanParts::new(set, device, trains);
        let linear = parts.weights("generator.fc", true)?;
        let opens = set.get("generator.bn0.weight").is_some();
        let first = opens.then(|| parts.batch_norm("generator.bn0")).transpose()?;
        let mut layers = Vec::new();
        for (number, layer) in (1..).zip(config.generator_layers()) {
            let weights = parts.weights(&format!("generator.conv{number}"), layer.has_bias)?;
            let norm = layer.has_norm.then(|| parts.batch_norm(&format!("generator.bn{number}")));
            layers.push((layer, weights, norm.transpose()?));
        }
        let variables = parts.sorted_variables();
        Ok(AcGenerator { config, linear, first, layers, variables })
    }

    /// Returns the variables, sorted by name; empty for a frozen generator.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Returns the variables without their names.
    pub fn vars(&self) -> Vec<Var> {
        self.variables.iter().map(|(_, var)| var.clone()).collect()
    }

    /// Returns images `(b, channels, image, image)` with values from -1 to 1 for noise `(b, noise)`.
    ///
    /// # Errors
    /// Returns an error if the noise has another width.
    pub fn images(&self, noise: &Tensor) -> Result<Tensor, ModelError> {
        let (channels, side) = self.config.linear();
        let wide = ops::linear(noise, &self.linear.weight, self.linear.bias.as_ref())?;
        let planes = wide.reshape((noise.dim(0)?, channels, side, side))?;
        // Channels last from here on, as the convolutions need them.
        let mut x = planes.permute((0, 2, 3, 1))?.contiguous()?;
        if let Some(norm) = &self.first {
            x = norm.forward(&x, None, true)?;
        }
        for (layer, weights, norm) in &self.layers {
            let GanLayer { stride, padding, .. } = *layer;
            x = weights.biased(ops::conv_transpose2d(&x, &weights.weight, stride, padding)?)?;
            x = match norm {
                Some(norm) => norm.forward(&x, None, true)?,
                None => ops::tanh(&x)?,
            };
        }
        let image = self.config.image;
        if x.dim(1)? > image {
            x = x.narrow(1, 0, image)?.narrow(2, 0, image)?.contiguous()?;
        }
        Ok(x.permute((0, 3, 1, 2))?.contiguous()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ops::testing::draw;
    use crate::model::{GanForm, Parameter};
    use crate::numerics::streams::Domain;

    fn key(step: u64) -> StreamKey {
        StreamKey::new(2, Domain::Method).step(step)
    }

    fn small(form: GanForm) -> AcGanConfig {
        AcGanConfig { form, noise: 9, classes: 3, channels: 1, image: 8, divisor: 16 }
    }

    /// FedCIL card, invariant 6.
    #[test]
    fn noise_carries_exactly_its_label() -> Result<(), ModelError> {
        let config = small(GanForm::Cifar);
        let noise = config.noise_of(&[2, 0], key(0), &Device::Cpu)?.to_vec2::<f32>()?;
        assert_eq!(noise[0][..3], [0.0, 0.0, 1.0]);
        assert_eq!(noise[1][..3], [1.0, 0.0, 0.0]);
        let rest: Vec<f32> = noise.iter().flat_map(|row| row[3..].to_vec()).collect();
        assert!(rest.iter().all(|value| *value != 0.0 && value.is_finite()));
        // The normals do not depend on the labels.
        let other = config.noise_of(&[1, 1], key(0), &Device::Cpu)?.to_vec2::<f32>()?;
        assert_eq!(other[0][3..], noise[0][3..]);
        assert_ne!(config.noise_of(&[2, 0], key(1), &Device::Cpu)?.to_vec2::<f32>()?, noise);
        let error = config.noise_of(&[3], key(0), &Device::Cpu).unwrap_err().to_string();
        assert!(error.contains("3 classes"), "{error}");
        let narrow = AcGanConfig { noise: 3, ..config };
        assert!(narrow.noise_of(&[0], key(0), &Device::Cpu).is_err());
        Ok(())
    }

    /// Differences of a loss of the images by single numbers of every parameter.
    #[test]
    fn gradients_are_finite_differences() -> Result<(), ModelError> {
        for form in [GanForm::Cifar, GanForm::Mnist] {
            let config = small(form);
            // Larger weights than the initial ones: below norms, small weights change strongly with little steps.
            let drawn = |(name, shape): (String, Vec<usize>)| {
                let fan: usize = shape.iter().skip(1).product();
                let scale = if shape.len() == 1 { 1.0 } else { 1.5 / (fan as f32).sqrt() };
                let values = draw(&name, shape.clone()).flatten_all().unwrap();
                let values = values.to_vec1::<f32>().unwrap().into_iter();
                (name, Parameter { shape, values: values.map(|value| scale * value).collect() })
            };
            let set: ParameterSet = config.generator_shapes().into_iter().map(drawn).collect();
            let noise = config.noise_of(&[0, 1, 2, 1], key(1), &Device::Cpu)?;
            let direction: Vec<f32> = (0..4 * 64).map(|i| (i as f32 * 0.7).sin()).collect();
            let direction = Tensor::from_vec(direction, (4, 1, 8, 8), &Device::Cpu)?;
            let loss = |set: &ParameterSet| -> Result<(Tensor, AcGenerator), ModelError> {
                let generator = AcGenerator::assemble(config, set, &Device::Cpu, true)?;
                let value = ops::sum_all(&(generator.images(&noise)? * &direction)?)?;
                Ok((value, generator))
            };
            let (value, generator) = loss(&set)?;
            let gradients = value.backward()?;
            assert_eq!(generator.variables().len(), config.generator_shapes().len());
            for (name, variable) in generator.variables() {
                let gradient = gradients.get(variable).expect("a gradient");
                let gradient = gradient.flatten_all()?.to_vec1::<f32>()?;
                let at = (0..gradient.len())
                    .max_by(|a, b| gradient[*a].abs().total_cmp(&gradient[*b].abs()));
                let at = at.expect("a number");
                // A bias in front of a norm has no gradient.
                if gradient[at].abs() < 1e-3 {
                    assert!(name.ends_with(".bias"), "{name}");
                    continue;
                }
                let moved = |by: f32| -> Result<f64, ModelError> {
                    let mut parameter = set.get(name).expect("a parameter").clone();
                    let mut values = parameter.values.to_vec();
                    values[at] += by;
                    parameter.values = values.into();
                    let moved = set.clone().merge(&[(&**name, parameter)].into_iter().collect());
                    Ok(f64::from(loss(&moved)?.0.to_scalar::<f32>()?))
                };
                let step = 5e-4;
                let slope = (moved(step)? - moved(-step)?) / (2.0 * f64::from(step));
                let gap = (slope - f64::from(gradient[at])).abs();
                assert!(
                    gap < 0.05 * f64::from(gradient[at].abs()) + 5e-3,
                    "{name}: {slope} {}",
                    gradient[at]
                );
            }
        }
        Ok(())
    }

    #[test]
    fn images_are_cut_and_misfits_refused() -> Result<(), ModelError> {
        for form in [GanForm::Cifar, GanForm::Mnist] {
            let odd = AcGanConfig { image: 12, channels: 3, ..small(form) };
            let set = odd.initial_parameters(key(0));
            let generator = AcGenerator::frozen(odd, &set, &Device::Cpu)?;
            assert!(generator.variables().is_empty());
            let images = generator.images(&odd.noise_of(&[0, 1], key(1), &Device::Cpu)?)?;
            assert_eq!(images.dims(), [2, 3, 12, 12]);
            assert!(!images.track_op());
            let values = images.flatten_all()?.to_vec1::<f32>()?;
            assert!(values.iter().all(|value| value.abs() <= 1.0));
            let wider = AcGanConfig { noise: 10, ..odd };
            let error = AcGenerator::frozen(wider, &set, &Device::Cpu).unwrap_err().to_string();
            assert!(error.contains("generator.fc.weight"), "{error}");
        }
        Ok(())
    }
}
