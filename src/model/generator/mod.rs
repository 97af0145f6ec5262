//! Convolutional generator of images, as in MFCL, TARGET and LANDER.
//!
//! Source: Fang et al., "Data-Free Adversarial Distillation", arXiv 1912.11006.
//!
//! ```text
//! z (latent) -> Linear -> (width, s, s) -> BN
//!   -> [x2 -> conv -> BN -> LeakyReLU] once per upsampling, the last to fewer channels
//!   -> conv to the image's channels -> tanh -> BN without scale and shift
//! ```
//! The generators of TARGET and LANDER ([`GeneratorForm::Logistic`]) have a bias in the last convolution only, the
//! usual epsilon, and a logistic function in place of `tanh` and norm; LANDER's inputs are [`LabelNoise`].
//!
//! Convolutions are 3 x 3 with a bias, upsampling repeats pixels. Batch norms after convolutions have an epsilon of
//! 0.8, which the authors passed by position, probably meant as the momentum. Over variables it trains: batch norms use
//! the moments of the batch and update the running ones, by which a frozen generator normalizes.
//!
//! ```
//! use fedcast::model::{ImageGenerator, ImageGeneratorConfig};
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! # fn main() -> Result<(), fedcast::model::ModelError> {
//! let config = ImageGeneratorConfig { latent: 20, width: 16, last: 8, image: 12, ..ImageGeneratorConfig::default() };
//! let key = StreamKey::new(1, Domain::Init);
//! let start = ImageGenerator::initial_parameters(&config, key);
//! let generator = ImageGenerator::frozen(config, &start, &candle_core::Device::Cpu)?;
//! let images = generator.images(&generator.latents(5, key)?)?;
//! assert_eq!(images.dims(), [5, 3, 12, 12]);
//! # Ok(())
//! # }
//! ```

mod config;
#[cfg(test)]
pub(crate) mod golden;
mod initialize;
mod label_noise;
mod network;

pub use config::{GeneratorForm, ImageGeneratorConfig};
pub use label_noise::LabelNoise;
pub use network::ImageGenerator;
