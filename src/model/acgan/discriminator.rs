//! Discriminator of an AC-GAN: convolutions below two heads, one for real or generated, one for classes.

use candle_core::{Device, Tensor, Var};

use super::AcGanConfig;
use super::config::GanLayer;
use super::layers::{GanParts, GanWeights, detached};
use crate::model::norm::{Norm, RunningMoments};
use crate::model::ops::{self, SampleGroups};
use crate::model::parameters::{ParameterSet, Variables};
use crate::model::{Dropout, GanForm, MaskPlace, ModelError};

/// A discriminator, frozen or over variables.
///
/// Over variables it normalizes by the moments of its batch and updates the running ones.
#[derive(Clone, Debug)]
pub struct AcDiscriminator {
    config: AcGanConfig,
    layers: Vec<(GanLayer, GanWeights, Option<Norm>)>,
    real: GanWeights,
    classes: GanWeights,
    variables: Variables,
    running: RunningMoments,
}

/// Output of a discriminator for a batch.
#[derive(Clone, Debug)]
pub struct GanAnswer {
    /// Features below both heads, `(b, d)`.
    pub features: Tensor,
    /// Logit of being real, `(b)`.
    pub real: Tensor,
    /// Logits of all classes, `(b, classes)`.
    pub classes: Tensor,
}

/// Dropout of a training pass. Every pass of a step draws its own masks.
#[derive(Clone, Copy, Debug)]
pub struct GanDropout {
    /// Fraction of zeros, below 1.
    pub rate: f64,
    /// Place in the random streams at which the masks of the step are drawn.
    pub place: MaskPlace,
    /// Number of the pass in its step.
    pub pass: usize,
}

/// Masks per pass: more than a discriminator has layers.
const MASKS: usize = 8;

impl AcDiscriminator {
    /// Returns a discriminator with these parameters that normalizes by running moments.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing or of another shape.
    pub fn frozen(
        config: AcGanConfig,
        set: &ParameterSet,
        device: &Device,
    ) -> Result<AcDiscriminator, ModelError> {
        AcDiscriminator::assemble(config, set, device, false)
    }

    pub(super) fn assemble(
        config: AcGanConfig,
        set: &ParameterSet,
        device: &Device,
        trains: bool,
    ) -> Result<AcDiscriminator, ModelError> {
        for (name, shape) in config.discriminator_shapes() {
            set.expect("discriminator", &name, &shape)?;
        }
        let mut parts = GanParts::new(set, device, trains);
        let mut layers = Vec::new();
        for (number, layer) in (1..).zip(config.discriminator_layers()) {
            let weights = parts.weights(&format!("discriminator.conv{number}"), layer.has_bias)?;
            let norm = || parts.running_norm(&format!("discriminator.bn{number}"));
            layers.push((layer, weights, layer.has_norm.then(norm).transpose()?));
        }
        let real = parts.weights(AcGanConfig::REAL, true)?;
        let classes = parts.weights(AcGanConfig::CLASSES, true)?;
        let variables = parts.sorted_variables();
        let running = parts.running;
        Ok(AcDiscriminator { config, layers, real, classes, variables, running })
    }

    /// Returns the variables, sorted by name; empty for a frozen discriminator.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Returns the variables without their names.
    pub fn vars(&self) -> Vec<Var> {
        self.variables.iter().map(|(_, var)| var.clone()).collect()
    }

    /// Returns the current variables and running moments.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        let mut set = ParameterSet::snapshot(&self.variables)?;
        self.running.record(&mut set)?;
        Ok(set)
    }

    /// Returns a copy whose parameters are constants, for gradients of its input alone.
    ///
    /// It shares the running moments.
    pub fn detached(&self) -> AcDiscriminator {
        let layer = |(layer, weights, norm): &(GanLayer, GanWeights, Option<Norm>)| {
            (*layer, weights.detached(), norm.as_ref().map(detached))
        };
        AcDiscriminator {
            layers: self.layers.iter().map(layer).collect(),
            real: self.real.detached(),
            classes: self.classes.detached(),
            variables: Variables::new(),
            running: self.running.clone(),
            ..*self
        }
    }

    /// Returns the outputs for images `(b, channels, image, image)`, without dropout.
    ///
    /// # Errors
    /// Returns an error if the images have another size.
    pub fn answer(&self, images: &Tensor) -> Result<GanAnswer, ModelError> {
        self.forward(images, None)
    }

    /// Returns the outputs for images in a training pass, with dropout.
    ///
    /// # Errors
    /// Returns an error if the images have another size.
    pub fn forward(
        &self,
        images: &Tensor,
        dropout: Option<GanDropout>,
    ) -> Result<GanAnswer, ModelError> {
        let samples = images.dim(0)?;
        let mut x = images.permute((0, 2, 3, 1))?.contiguous()?;
        let slope = match self.config.form {
            GanForm::Cifar => 0.2,
            GanForm::Mnist => 0.01,
        };
        // The small form has no dropout.
        let dropout = dropout.filter(|one| one.rate > 0.0 && self.config.form == GanForm::Cifar);
        for (number, (layer, weights, norm)) in self.layers.iter().enumerate() {
            let GanLayer { stride, padding, .. } = *layer;
            x = weights.biased(ops::conv2d(&x, &weights.weight, stride, padding)?)?;
            if let Some(norm) = norm {
                x = norm.forward(&x, None, false)?;
            }
            x = ops::leaky_relu(&x, slope)?;
            if let Some(GanDropout { rate, place, pass }) = dropout {
                let dropout = Dropout { rate, places: vec![place] };
                x = dropout.apply(&x, pass * MASKS + number, &SampleGroups::one(samples))?;
            }
        }
        // Features are ordered by channel, as in the release.
        let features = x.permute((0, 3, 1, 2))?.contiguous()?.flatten_from(1)?;
        let head = |head: &GanWeights| ops::linear(&features, &head.weight, head.bias.as_ref());
        let (real, classes) = (head(&self.real)?.squeeze(1)?, head(&self.classes)?);
        Ok(GanAnswer { features, real, classes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AcGan;
    use crate::model::is_buffer;
    use crate::model::ops::testing::draw;
    use crate::model::parameters::Parameter;
    use crate::numerics::streams::{Domain, StreamKey};

    fn small(form: GanForm) -> AcGanConfig {
        AcGanConfig { form, noise: 9, classes: 3, channels: 2, image: 8, divisor: 16 }
    }

    fn key() -> StreamKey {
        StreamKey::new(3, Domain::Init)
    }

    fn dropout(rate: f64, pass: usize) -> GanDropout {
        GanDropout { rate, place: MaskPlace { key: key().domain(Domain::Dropout), step: 4 }, pass }
    }

    fn loss(answer: &GanAnswer) -> Result<Tensor, ModelError> {
        let classes =
            ops::sum_all(&(&answer.classes * draw("c", answer.classes.shape().clone()))?)?;
        Ok((ops::sum_all(&(&answer.real * draw("r", answer.real.shape().clone()))?)? + classes)?)
    }

    /// Both heads, every layer, with the masks of a pass: differences of the loss by the number that moves it most.
    #[test]
    fn gradients_are_finite_differences() -> Result<(), ModelError> {
        for form in [GanForm::Cifar, GanForm::Mnist] {
            let config = small(form);
            // Larger weights than the initial ones, so that gradients are not tiny.
            let drawn = |(name, shape): (String, Vec<usize>)| {
                let fan: usize = shape.iter().skip(1).product();
                let values =
                    draw(&name, shape.clone()).flatten_all().unwrap().to_vec1::<f32>().unwrap();
                let scale = match shape.len() {
                    1 => 1.0,
                    _ => 1.5 / (fan as f32).sqrt(),
                };
                let is_variance = name.ends_with("running_var");
                let value = |value: f32| if is_variance { 1.0 } else { scale * value };
                let values = values.into_iter().map(value).collect();
                (name, Parameter { shape, values })
            };
            let set: ParameterSet = config.parameter_shapes().into_iter().map(drawn).collect();
            let images = draw("images", (5, 2, 8, 8));
            let of = |set: &ParameterSet| -> Result<(Tensor, AcDiscriminator), ModelError> {
                let network = AcGan::trainable(config, set, &Device::Cpu)?.discriminator;
                Ok((loss(&network.forward(&images, Some(dropout(0.3, 1)))?)?, network))
            };
            let (value, network) = of(&set)?;
            let gradients = value.backward()?;
            let trained =
                config.discriminator_shapes().into_iter().filter(|(name, _)| !is_buffer(name));
            assert_eq!(network.variables().len(), trained.count());
            for (name, variable) in network.variables() {
                let gradient = gradients.get(variable).expect("a gradient");
                let gradient = gradient.flatten_all()?.to_vec1::<f32>()?;
                let at = (0..gradient.len())
                    .max_by(|a, b| gradient[*a].abs().total_cmp(&gradient[*b].abs()));
                let at = at.expect("a number");
                assert!(gradient[at] != 0.0, "{name}");
                let moved = |by: f32| -> Result<f64, ModelError> {
                    let mut parameter = set.get(name).expect("a parameter").clone();
                    let mut values = parameter.values.to_vec();
                    values[at] += by;
                    parameter.values = values.into();
                    let moved = set.clone().merge(&[(&**name, parameter)].into_iter().collect());
                    Ok(f64::from(of(&moved)?.0.to_scalar::<f32>()?))
                };
                let step = 2e-3;
                let slope = (moved(step)? - moved(-step)?) / (2.0 * f64::from(step));
                let own = f64::from(gradient[at]);
                assert!((slope - own).abs() < 0.06 * own.abs() + 3e-3, "{name}: {slope} {own}");
            }
        }
        Ok(())
    }

    /// A generator's step goes through a discriminator that gets no gradient itself.
    #[test]
    fn a_detached_one_passes_gradients_of_images_on() -> Result<(), ModelError> {
        let config = small(GanForm::Cifar);
        let set = config.initial_parameters(key());
        let network = AcGan::trainable(config, &set, &Device::Cpu)?.discriminator;
        let images = Var::from_tensor(&draw("images", (4, 2, 8, 8)))?;
        let own = loss(&network.forward(&images, Some(dropout(0.5, 0)))?)?;
        let (seen, detached) = (own.backward()?, network.detached());
        let other = loss(&detached.forward(&images, Some(dropout(0.5, 0)))?)?;
        assert_eq!(own.to_scalar::<f32>()?, other.to_scalar::<f32>()?);
        let through = other.backward()?;
        let flat = |tensor: &Tensor| tensor.flatten_all().and_then(|t| t.to_vec1::<f32>());
        assert_eq!(flat(seen.get(&images).unwrap())?, flat(through.get(&images).unwrap())?);
        assert!(network.vars().iter().all(|var| through.get(var).is_none()));
        assert!(network.vars().iter().all(|var| seen.get(var).is_some()));
        Ok(())
    }

    /// Both passes moved the same running moments; a frozen network uses them and drops nothing.
    #[test]
    fn running_moments_move_in_training_alone() -> Result<(), ModelError> {
        let config = small(GanForm::Cifar);
        let set = config.initial_parameters(key());
        let network = AcGan::trainable(config, &set, &Device::Cpu)?.discriminator;
        let images = draw("images", (4, 2, 8, 8));
        network.forward(&images, None)?;
        let once = network.parameters()?;
        network.detached().forward(&images, None)?;
        let twice = network.parameters()?;
        for number in 2..=6 {
            let name = format!("discriminator.bn{number}.running_mean");
            let of = |set: &ParameterSet| set.get(&name).unwrap().values[0];
            let (zero, one, two) = (of(&set), of(&once), of(&twice));
            assert!(zero == 0.0 && one != 0.0, "{name}");
            // A tenth of the same mean, and then a tenth of what is left.
            assert!((two / one - 1.9).abs() < 1e-3, "{name}: {one} {two}");
        }
        let frozen = AcDiscriminator::frozen(config, &twice, &Device::Cpu)?;
        let all = frozen.answer(&images)?.classes.to_vec2::<f32>()?;
        let alone = frozen.answer(&images.narrow(0, 2, 1)?)?.classes.to_vec2::<f32>()?;
        assert!(all[2].iter().zip(&alone[0]).all(|(a, b)| (a - b).abs() < 1e-5));
        assert_eq!(frozen.parameters()?.len(), 10);
        Ok(())
    }

    #[test]
    fn passes_of_a_step_have_masks_of_their_own() -> Result<(), ModelError> {
        let config = small(GanForm::Cifar);
        let set = config.initial_parameters(key());
        let images = draw("images", (4, 2, 8, 8));
        let of = |dropout| -> Result<Vec<f32>, ModelError> {
            let network = AcGan::trainable(config, &set, &Device::Cpu)?.discriminator;
            Ok(network.forward(&images, dropout)?.features.flatten_all()?.to_vec1::<f32>()?)
        };
        let first = of(Some(dropout(0.5, 0)))?;
        assert_eq!(first, of(Some(dropout(0.5, 0)))?);
        assert_ne!(first, of(Some(dropout(0.5, 1)))?);
        let zeros = first.iter().filter(|value| **value == 0.0).count();
        assert!((20..=108).contains(&zeros), "{zeros} of {}", first.len());
        assert_eq!(of(None)?, of(Some(dropout(0.0, 0)))?);
        // The small form has none.
        let mnist = AcGanConfig { form: GanForm::Mnist, ..config };
        let network =
            AcDiscriminator::frozen(mnist, &mnist.initial_parameters(key()), &Device::Cpu)?;
        let [with, without] =
            [Some(dropout(0.5, 0)), None].map(|dropout| network.forward(&images, dropout));
        assert_eq!(with?.classes.to_vec2::<f32>()?, without?.classes.to_vec2::<f32>()?);
        Ok(())
    }
}
