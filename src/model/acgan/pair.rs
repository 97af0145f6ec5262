//! Both networks of an AC-GAN.

use candle_core::Device;

use super::{AcDiscriminator, AcGanConfig, AcGenerator};
use crate::model::ModelError;
use crate::model::parameters::ParameterSet;

/// Prefix of the names of a generator's parameters.
pub const GENERATOR: &str = "generator.";

/// Returns true if a parameter of an AC-GAN belongs to its generator.
pub fn of_generator(name: &str) -> bool {
    name.starts_with(GENERATOR)
}

/// Generator and discriminator, both frozen or both over variables.
#[derive(Clone, Debug)]
pub struct AcGan {
    /// Network from noise to images.
    pub generator: AcGenerator,
    /// Network from images to classes, and to real or generated.
    pub discriminator: AcDiscriminator,
}

impl AcGan {
    /// Returns a frozen pair with these parameters.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing or has another shape.
    pub fn frozen(
        config: AcGanConfig,
        set: &ParameterSet,
        device: &Device,
    ) -> Result<AcGan, ModelError> {
        AcGan::assemble(config, set, device, false)
    }

    /// Returns the pair over new variables.
    ///
    /// # Errors
    /// Fails as [`frozen`](AcGan::frozen) does.
    pub fn trainable(
        config: AcGanConfig,
        set: &ParameterSet,
        device: &Device,
    ) -> Result<AcGan, ModelError> {
        AcGan::assemble(config, set, device, true)
    }

    fn assemble(
        config: AcGanConfig,
        set: &ParameterSet,
        device: &Device,
        trains: bool,
    ) -> Result<AcGan, ModelError> {
        Ok(AcGan {
            generator: AcGenerator::assemble(config, set, device, trains)?,
            discriminator: AcDiscriminator::assemble(config, set, device, trains)?,
        })
    }

    /// Returns the current values of parameters that train, and running moments.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        let generator = ParameterSet::snapshot(self.generator.variables())?;
        Ok(self.discriminator.parameters()?.merge(&generator))
    }
}
