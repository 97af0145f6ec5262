//! Layers of both networks, over variables or frozen tensors.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use crate::model::norm::{NORM_EPS, Norm, RunningMoments};
use crate::model::ops::{self, BatchNormStatistics, ChannelAffine, ChannelMoments};
use crate::model::parameters::{ParameterSet, Variables};
use crate::model::{ModelError, is_buffer};

/// Weight of a layer, and its bias if any.
#[derive(Clone, Debug)]
pub(super) struct GanWeights {
    pub weight: Tensor,
    pub bias: Option<Tensor>,
}

impl GanWeights {
    /// Returns the layer with constant weights.
    pub fn detached(&self) -> GanWeights {
        let bias = self.bias.as_ref().map(Tensor::detach);
        GanWeights { weight: self.weight.detach(), bias }
    }

    /// Adds the bias to every pixel, as a norm with moments 0 and 1. So its gradient is summed over blocks of pixels.
    pub fn biased(&self, x: Tensor) -> Result<Tensor> {
        let Some(bias) = &self.bias else { return Ok(x) };
        let (zeros, ones) = (bias.detach().zeros_like()?, bias.detach().ones_like()?);
        let affine = ChannelAffine { weight: &ones, bias, eps: 0.0 };
        let moments = ChannelMoments { mean: zeros, variance: ones.clone(), rows: 0 };
        ops::batch_norm(&x, affine, BatchNormStatistics::Running(&moments), None, false)
    }
}

/// Returns a norm with constant scale and shift that updates the same running moments.
pub(super) fn detached(norm: &Norm) -> Norm {
    Norm { weight: norm.weight.detach(), bias: norm.bias.detach(), ..norm.clone() }
}

/// Parts of a network under construction.
pub(super) struct GanParts<'a> {
    pub set: &'a ParameterSet,
    pub device: &'a Device,
    pub trains: bool,
    pub variables: Variables,
    /// Running moments of all norms so far.
    pub running: RunningMoments,
}

impl<'a> GanParts<'a> {
    pub fn new(set: &'a ParameterSet, device: &'a Device, trains: bool) -> GanParts<'a> {
        GanParts {
            set,
            device,
            trains,
            variables: Variables::new(),
            running: RunningMoments::default(),
        }
    }

    fn tensor(&mut self, name: &str) -> std::result::Result<Tensor, ModelError> {
        let missing = || ModelError::Input { reason: format!("the AC-GAN lacks `{name}`") };
        let parameter = self.set.get(name).ok_or_else(missing)?;
        if !self.trains || is_buffer(name) {
            return parameter.tensor(self.device);
        }
        let variable = parameter.variable(self.device)?;
        let tensor = variable.as_tensor().clone();
        self.variables.push((Arc::from(name), variable));
        Ok(tensor)
    }

    pub fn weights(
        &mut self,
        name: &str,
        has_bias: bool,
    ) -> std::result::Result<GanWeights, ModelError> {
        let weight = self.tensor(&format!("{name}.weight"))?;
        let bias = has_bias.then(|| self.tensor(&format!("{name}.bias"))).transpose()?;
        Ok(GanWeights { weight, bias })
    }

    /// Adds a norm that always uses the moments of its batch.
    pub fn batch_norm(&mut self, name: &str) -> std::result::Result<Norm, ModelError> {
        let GanWeights { weight, bias } = self.weights(name, true)?;
        let bias = bias.map_or_else(|| weight.zeros_like(), Ok)?;
        let (mean, variance) = (bias.detach().zeros_like()?, bias.detach().ones_like()?);
        let running = RunningMoments::of(mean, variance)?;
        Ok(Norm { weight, bias, running, trains: true, eps: NORM_EPS })
    }

    /// Adds a norm that uses running moments unless it trains.
    pub fn running_norm(&mut self, name: &str) -> std::result::Result<Norm, ModelError> {
        let norm = Norm { trains: self.trains, ..self.batch_norm(name)? };
        let running = RunningMoments::of_norm(name, |name| self.tensor(name))?;
        self.running.push(name, &running);
        Ok(Norm { running, ..norm })
    }

    /// Returns the variables, sorted by name.
    pub fn sorted_variables(&mut self) -> Variables {
        let mut variables = std::mem::take(&mut self.variables);
        variables.sort_by(|(a, _), (b, _)| a.cmp(b));
        variables
    }
}
