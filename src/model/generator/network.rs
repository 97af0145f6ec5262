//! Generator network: a linear layer, upsamplings with convolutions, an image.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};

use super::{GeneratorForm, ImageGeneratorConfig};
use crate::model::norm::{NORM_EPS, Norm, RunningMoments};
use crate::model::ops::{self, BatchNormStatistics, ChannelAffine, ChannelMoments};
use crate::model::parameters::{ParameterSet, Variables};
use crate::model::{ModelError, is_buffer};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;

/// Epsilon of the norms after convolutions.
const INNER_EPS: f64 = 0.8;
/// Slope of the leaky rectifier below 0.
const SLOPE: f32 = 0.2;

/// Generator of images, frozen or over variables.
#[derive(Debug)]
pub struct ImageGenerator {
    config: ImageGeneratorConfig,
    linear: GeneratorLayer,
    first: Norm,
    stages: Vec<(GeneratorLayer, Norm)>,
    last: GeneratorLayer,
    /// Norm after `tanh`; `None` if a logistic function ends the network.
    output: Option<Norm>,
    variables: Variables,
    running: RunningMoments,
    device: Device,
}

/// Weight and bias of a linear layer or a convolution.
#[derive(Clone, Debug)]
struct GeneratorLayer {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl GeneratorLayer {
    /// Convolves `x` `(b, h, w, c)` with a 3 x 3 kernel.
    fn convolve(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let x = ops::conv2d(x, &self.weight, 1, 1)?;
        self.bias.as_ref().map_or(Ok(x.clone()), |bias| add_bias(&x, bias))
    }
}

/// Adds a bias per channel to `x` `(.., c)`, as a norm with moments 0 and 1. So its gradient is summed over blocks of
/// pixels.
fn add_bias(x: &Tensor, bias: &Tensor) -> candle_core::Result<Tensor> {
    let (zeros, ones) = (bias.detach().zeros_like()?, bias.detach().ones_like()?);
    let affine = ChannelAffine { weight: &ones, bias, eps: 0.0 };
    let moments = ChannelMoments { mean: zeros, variance: ones.clone(), rows: 0 };
    ops::batch_norm(x, affine, BatchNormStatistics::Running(&moments), None, false)
}

impl ImageGenerator {
    /// Returns a generator with these parameters that normalizes by running moments.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing or of another shape.
    pub fn frozen(
        config: ImageGeneratorConfig,
        set: &ParameterSet,
        device: &Device,
    ) -> Result<ImageGenerator, ModelError> {
        ImageGenerator::assemble(config, set, device, false)
    }

    /// Returns the generator over new variables, which normalizes by the moments of its batches.
    ///
    /// # Errors
    /// Fails as [`frozen`](ImageGenerator::frozen) does.
    pub fn trainable(
        config: ImageGeneratorConfig,
        set: &ParameterSet,
        device: &Device,
    ) -> Result<ImageGenerator, ModelError> {
        ImageGenerator::assemble(config, set, device, true)
    }

    fn assemble(
        config: ImageGeneratorConfig,
        set: &ParameterSet,
        device: &Device,
        trains: bool,
    ) -> Result<ImageGenerator, ModelError> {
        let mut parts = GeneratorParts {
            set,
            device,
            trains,
            variables: Variables::new(),
            running: RunningMoments::default(),
        };
        let shapes: std::collections::BTreeMap<String, Vec<usize>> =
            config.parameter_shapes().into_iter().collect();
        for (name, shape) in &shapes {
            set.expect("generator", name, shape)?;
        }
        let inner = match config.form {
            GeneratorForm::Normalized => INNER_EPS,
            GeneratorForm::Logistic => NORM_EPS,
        };
        let linear = parts.layer("l1", true)?;
        let first = parts.norm("bn0", NORM_EPS, None)?;
        let mut stages = Vec::new();
        for stage in 1..=config.upsamplings {
            let layer = parts.layer(&format!("conv{stage}"), config.has_bias(stage))?;
            stages.push((layer, parts.norm(&format!("bn{stage}"), inner, None)?));
        }
        let last = parts.layer(&format!("conv{}", config.upsamplings + 1), true)?;
        let output = format!("bn{}", config.upsamplings + 1);
        let output = match config.form {
            GeneratorForm::Normalized => {
                Some(parts.norm(&output, NORM_EPS, Some(config.channels))?)
            }
            GeneratorForm::Logistic => None,
        };
        let GeneratorParts { mut variables, running, .. } = parts;
        variables.sort_by(|(a, _), (b, _)| a.cmp(b));
        let device = device.clone();
        Ok(ImageGenerator {
            config,
            linear,
            first,
            stages,
            last,
            output,
            variables,
            running,
            device,
        })
    }

    /// Returns the dimensions.
    pub fn config(&self) -> &ImageGeneratorConfig {
        &self.config
    }

    /// Returns the variables, sorted by name; empty for a frozen generator.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Returns the variables without their names.
    pub fn vars(&self) -> Vec<Var> {
        self.variables.iter().map(|(_, var)| var.clone()).collect()
    }

    /// Returns the current variables and running moments; for a frozen generator only the latter.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        let mut set = ParameterSet::snapshot(&self.variables)?;
        self.running.record(&mut set)?;
        Ok(set)
    }

    /// Draws standard normal noise `(count, latent)`.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn latents(&self, count: usize, key: StreamKey) -> Result<Tensor, ModelError> {
        let mut values = vec![0.0; count * self.config.latent];
        fill_normal(&mut key.rng(), &mut values);
        Ok(Tensor::from_vec(values, (count, self.config.latent), &self.device)?)
    }

    /// Returns images `(b, channels, image, image)` for noise `(b, latent)`.
    ///
    /// Values have about the range of normalized pixels or, with a logistic function, lie in `[0, 1]`.
    ///
    /// # Errors
    /// Returns an error if the noise has another width.
    pub fn images(&self, latents: &Tensor) -> Result<Tensor, ModelError> {
        let ImageGeneratorConfig { width, image, .. } = self.config;
        let start = self.config.start();
        let wide = ops::linear(latents, &self.linear.weight, self.linear.bias.as_ref())?;
        let planes = wide.reshape((latents.dim(0)?, width, start, start))?;
        // Channels last from here on, as the convolutions need them.
        let mut x =
            self.first.forward(&planes.permute((0, 2, 3, 1))?.contiguous()?, None, false)?;
        for (layer, norm) in &self.stages {
            x = layer.convolve(&ops::upsample(&x)?)?;
            x = ops::leaky_relu(&norm.forward(&x, None, false)?, SLOPE)?;
        }
        let mut x = self.last.convolve(&x)?;
        if x.dim(1)? > image {
            x = x.narrow(1, 0, image)?.narrow(2, 0, image)?.contiguous()?;
        }
        let x = match &self.output {
            Some(norm) => norm.forward(&ops::tanh(&x)?, None, false)?,
            None => ops::sigmoid(&x)?,
        };
        Ok(x.permute((0, 3, 1, 2))?.contiguous()?)
    }
}

/// Parts of a generator under construction.
struct GeneratorParts<'a> {
    set: &'a ParameterSet,
    device: &'a Device,
    trains: bool,
    variables: Variables,
    running: RunningMoments,
}

impl GeneratorParts<'_> {
    fn tensor(&mut self, name: &str) -> Result<Tensor, ModelError> {
        let missing = || ModelError::Input { reason: format!("the generator lacks `{name}`") };
        let parameter = self.set.get(name).ok_or_else(missing)?;
        if !self.trains || is_buffer(name) {
            return parameter.tensor(self.device);
        }
        let variable = parameter.variable(self.device)?;
        let tensor = variable.as_tensor().clone();
        self.variables.push((Arc::from(name), variable));
        Ok(tensor)
    }

    fn layer(&mut self, name: &str, has_bias: bool) -> Result<GeneratorLayer, ModelError> {
        let weight = self.tensor(&format!("{name}.weight"))?;
        let bias = has_bias.then(|| self.tensor(&format!("{name}.bias"))).transpose()?;
        Ok(GeneratorLayer { weight, bias })
    }

    /// Adds a norm. It has no scale and shift if a number of channels is given.
    fn norm(&mut self, name: &str, eps: f64, bare: Option<usize>) -> Result<Norm, ModelError> {
        let (weight, bias) = match bare {
            Some(channels) => {
                let of = |value: f32| Tensor::full(value, channels, self.device);
                (of(1.0)?, of(0.0)?)
            }
            None => {
                let weight = self.tensor(&format!("{name}.weight"))?;
                (weight, self.tensor(&format!("{name}.bias"))?)
            }
        };
        let running = RunningMoments::of_norm(name, |name| self.tensor(name))?;
        self.running.push(name, &running);
        Ok(Norm { weight, bias, running, trains: self.trains, eps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    fn small() -> (ImageGeneratorConfig, ParameterSet) {
        let config =
            ImageGeneratorConfig { latent: 6, width: 4, last: 3, image: 8, ..Default::default() };
        let key = StreamKey::new(1, Domain::Init);
        (config, ImageGenerator::initial_parameters(&config, key))
    }

    fn key(step: u64) -> StreamKey {
        StreamKey::new(2, Domain::Method).step(step)
    }

    #[test]
    fn every_parameter_trains_and_running_moments_move() -> Result<(), ModelError> {
        let (config, set) = small();
        let generator = ImageGenerator::trainable(config, &set, &Device::Cpu)?;
        let images = generator.images(&generator.latents(5, key(0))?)?;
        let weights: Vec<f32> = (0..5 * 192).map(|i| (i as f32 * 0.7).sin()).collect();
        let weights = Tensor::from_vec(weights, (5, 3, 8, 8), &Device::Cpu)?;
        let gradients = (images * weights)?.sum_all()?.backward()?;
        let names = config.parameter_shapes().into_iter().map(|(name, _)| name);
        let names: Vec<String> = names.filter(|name| !is_buffer(name)).collect();
        let own: Vec<&str> = generator.variables().iter().map(|(name, _)| &**name).collect();
        assert_eq!(own, names);
        for (name, variable) in generator.variables() {
            let gradient = gradients.get(variable).unwrap_or_else(|| panic!("{name} has none"));
            assert!(gradient.sqr()?.sum_all()?.to_scalar::<f32>()?.is_finite(), "{name}");
        }
        let after = generator.parameters()?;
        assert_eq!(after.len(), set.len());
        for norm in 0..4 {
            for moment in ["running_mean", "running_var"] {
                let name = format!("bn{norm}.{moment}");
                assert_ne!(after.get(&name), set.get(&name), "{name}");
            }
        }
        assert_eq!(after.get("conv1.weight"), set.get("conv1.weight"));
        Ok(())
    }

    /// Frozen, an image does not depend on the others of its batch, and nothing moves.
    #[test]
    fn a_frozen_generator_makes_images_one_by_one() -> Result<(), ModelError> {
        let (config, set) = small();
        let generator = ImageGenerator::frozen(config, &set, &Device::Cpu)?;
        let latents = generator.latents(4, key(1))?;
        let all = generator.images(&latents)?;
        assert!(!all.track_op());
        let alone = generator.images(&latents.narrow(0, 2, 1)?)?.flatten_all()?.to_vec1::<f32>()?;
        let third = all.narrow(0, 2, 1)?.flatten_all()?.to_vec1::<f32>()?;
        for (a, b) in alone.iter().zip(&third) {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
        let moved = generator.parameters()?;
        assert!(moved.iter().all(|(name, parameter)| set.get(name) == Some(parameter)));
        assert_ne!(
            generator.latents(4, key(2))?.to_vec2::<f32>()?,
            latents.to_vec2::<f32>()?,
            "another key, another noise"
        );
        Ok(())
    }

    #[test]
    fn images_are_cut_to_their_size_and_misfits_refused() -> Result<(), ModelError> {
        let (config, set) = small();
        let odd = ImageGeneratorConfig { image: 7, ..config };
        assert_eq!(odd.start(), config.start());
        let generator = ImageGenerator::frozen(odd, &set, &Device::Cpu)?;
        assert_eq!(generator.images(&generator.latents(2, key(0))?)?.dims(), [2, 3, 7, 7]);
        let wider = ImageGeneratorConfig { width: 5, ..config };
        let error = ImageGenerator::frozen(wider, &set, &Device::Cpu).unwrap_err().to_string();
        assert!(error.contains("bn0.bias"), "{error}");
        Ok(())
    }
}
