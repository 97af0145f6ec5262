//! Predictions by the class head of a discriminator.

use std::sync::Arc;

use candle_core::Tensor;

use crate::model::{AcDiscriminator, AcGanConfig, ParameterSet};
use crate::policy::{PolicyError, Predictor, RunContext, Scope};

/// Discriminator as a classifier, with running moments and without dropout.
pub(super) struct DiscriminatorModel {
    config: AcGanConfig,
    network: AcDiscriminator,
    parameters: ParameterSet,
}

impl DiscriminatorModel {
    /// Creates the model from the parameters of a discriminator.
    pub fn new(
        config: AcGanConfig,
        parameters: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<DiscriminatorModel, PolicyError> {
        let network = AcDiscriminator::frozen(config, parameters, &ctx.device)?;
        Ok(DiscriminatorModel { config, network, parameters: parameters.clone() })
    }
}

impl Predictor for DiscriminatorModel {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        Ok(self.network.answer(pixels)?.features)
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let (rows, classes) = (scope.rows(), self.config.classes);
        if rows.end > classes {
            return Err(PolicyError::Unsupported(format!(
                "head rows {rows:?} are asked for, this discriminator has {classes}"
            )));
        }
        let scores = self.network.answer(pixels)?.classes;
        Ok(scores.narrow(1, rows.start, rows.len())?.contiguous()?)
    }

    fn to_device(&self, ctx: &RunContext) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        if ctx.device.is_cpu() {
            return Ok(None);
        }
        Ok(Some(Arc::new(DiscriminatorModel::new(self.config, &self.parameters, ctx)?)))
    }
}
