//! Parametrizations of the image that an attacker optimizes.

use candle_core::{Device, Tensor, Var};
use clap::ValueEnum;

use super::LearningError;
use crate::model::{GeneratorForm, ImageGenerator, ImageGeneratorConfig, ops};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;

/// Parametrization of the image that is optimized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImagePrior {
    /// Output of an untrained convolutional network for fixed noise (Ulyanov et al. 2018).
    Network,
    /// Pixels that start as noise.
    Pixels,
}

/// Channels of the network that makes an image, before its last two convolutions and its last one.
const WIDTHS: [usize; 2] = [64, 32];

/// Width of the noise that the network maps to an image.
const LATENT: usize = 64;

/// Standard deviation of the logits of pixels that start as noise.
const NOISE: f32 = 0.1;

/// Image in `[0, 1]` over variables.
pub(super) struct PriorImage {
    source: PriorSource,
}

enum PriorSource {
    Pixels(Var),
    Network { network: Box<ImageGenerator>, noise: Tensor },
}

impl PriorImage {
    /// Returns the initial image of `[channels, side, side]`.
    pub fn new(
        prior: ImagePrior,
        [channels, height, width]: [usize; 3],
        device: &Device,
        key: StreamKey,
    ) -> Result<PriorImage, LearningError> {
        let source = match prior {
            ImagePrior::Pixels => {
                let mut values = vec![0.0; channels * height * width];
                fill_normal(&mut key.rng(), &mut values);
                let logits = Tensor::from_vec(values, (1, channels, height, width), device)?;
                PriorSource::Pixels(Var::from_tensor(&(logits * f64::from(NOISE))?)?)
            }
            ImagePrior::Network => {
                let [width, last] = WIDTHS;
                // The network starts with an image of 4 to 8 pixels on a side.
                let upsamplings = (height / 4).max(1).ilog2() as usize;
                let config = ImageGeneratorConfig {
                    latent: LATENT,
                    width,
                    last,
                    upsamplings,
                    channels,
                    form: GeneratorForm::Logistic,
                    image: height,
                };
                let start = ImageGenerator::initial_parameters(&config, key);
                let network = ImageGenerator::trainable(config, &start, device)?;
                let noise = network.latents(1, key.step(1))?;
                PriorSource::Network { network: Box::new(network), noise }
            }
        };
        Ok(PriorImage { source })
    }

    /// Returns all variables to optimize.
    pub fn variables(&self) -> Vec<Var> {
        match &self.source {
            PriorSource::Pixels(logits) => vec![logits.clone()],
            PriorSource::Network { network, .. } => network.vars(),
        }
    }

    /// Returns the current image, `(1, channels, side, side)` in `[0, 1]`.
    pub fn image(&self) -> Result<Tensor, LearningError> {
        match &self.source {
            // The logistic function, by the hyperbolic tangent.
            PriorSource::Pixels(logits) => {
                Ok(((ops::tanh(&(logits.as_tensor() * 0.5)?)? + 1.0)? * 0.5)?)
            }
            PriorSource::Network { network, noise } => Ok(network.images(noise)?),
        }
    }
}
