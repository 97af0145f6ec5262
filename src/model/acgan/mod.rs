//! Generator and discriminator of an AC-GAN (Odena et al., ICML 2017): the discriminator classifies.
//!
//! Both forms are those of FedCIL's release (daiqing98/FedCIL): [`GanForm::Cifar`] and the small [`GanForm::Mnist`] of
//! deep generative replay. Noise of standard normals carries the class one-hot in its first numbers.
//!
//! ```text
//! generator      Cifar: noise -> Linear -> [transposed conv -> BN -> ReLU] x 3 -> transposed conv -> tanh
//!                Mnist: noise -> Linear -> BN -> ReLU -> [as above] x 3 -> transposed conv -> tanh
//! discriminator  Cifar: [conv -> BN but in the first -> LeakyReLU -> dropout] x 6 -> real or generated, and classes
//!                Mnist: [conv -> LeakyReLU] x 3 -> real or generated, and classes
//! ```
//! A generator always normalizes by the moments of its batch, and so has no running ones; a discriminator does so in
//! training only. Images have values from -1 to 1. The networks halve or double an image three times; a generator's
//! image is cropped if its side is no multiple of 8.
//!
//! ```
//! use candle_core::Device;
//! use fedcast::model::{AcGan, AcGanConfig};
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! # fn main() -> Result<(), fedcast::model::ModelError> {
//! let config = AcGanConfig { classes: 4, channels: 1, image: 8, divisor: 8, ..AcGanConfig::default() };
//! let key = StreamKey::new(1, Domain::Init);
//! let gan = AcGan::frozen(config, &config.initial_parameters(key), &Device::Cpu)?;
//! let images = gan.generator.images(&config.noise_of(&[3, 0], key, &Device::Cpu)?)?;
//! let answer = gan.discriminator.answer(&images)?;
//! assert_eq!((images.dims(), answer.classes.dims()), (&[2, 1, 8, 8][..], &[2, 4][..]));
//! # Ok(())
//! # }
//! ```

mod config;
mod discriminator;
mod generator;
mod initialize;
mod layers;
mod pair;

pub use config::{AcGanConfig, GanForm};
pub use discriminator::{AcDiscriminator, GanAnswer, GanDropout};
pub use generator::AcGenerator;
pub use pair::{AcGan, GENERATOR, of_generator};
