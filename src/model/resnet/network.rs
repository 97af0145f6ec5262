//! Residual network: stem, residual stages, global average.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use candle_core::{DType, Tensor, Var};

use super::ResNetConfig;
use super::block::{ConvNorm, ResidualBlock, Taps};
use super::config::{BATCHES, MEAN, StemShape, VARIANCE, is_buffer};
use crate::model::norm::{NORM_EPS, Norm, NormInput, Running};
use crate::model::parameters::{Parameter, ParameterSet, Variables};
use crate::model::weights_file::{OpenWeights, WeightsSource};
use crate::model::{DeviceSpec, ModelError, ops};
use crate::weights::Network;

/// Residual network with torchvision's parameters, frozen or over variables.
///
/// **Frozen, it evaluates**: batch norms use their running statistics. **Over variables, it trains**: batch norms use
/// the moments of the batch, and every forward pass updates the running statistics, which [`ResNet::parameters`]
/// returns in addition to the variables. They are buffers ([`is_buffer`](super::is_buffer)), which no optimizer
/// changes. ([`ResNet::evaluating_at`] is over variables but evaluates.)
#[derive(Clone, Debug)]
pub struct ResNet {
    config: ResNetConfig,
    stem: ConvNorm,
    blocks: Vec<ResidualBlock>,
    /// All tensors except buffers, by name; the fields above share their storage.
    named: BTreeMap<Arc<str>, Tensor>,
    /// Running statistics by the name of the layer.
    running: BTreeMap<Arc<str>, Arc<Mutex<Running>>>,
    variables: Variables,
    /// Digest of a frozen network, computed on first request.
    digest: OnceLock<blake3::Hash>,
    place: DeviceSpec,
}

impl ResNet {
    /// Reads a file of weights with torchvision's names. Its classifier (`fc.*`) is skipped.
    ///
    /// # Errors
    /// Returns a [`ModelError`] that names file and tensor.
    pub fn load(source: &WeightsSource, config: ResNetConfig) -> Result<ResNet, ModelError> {
        let opened = OpenWeights::open(source)?;
        let set = opened.parameters(Network::ResNet, config.parameter_shapes())?;
        ResNet::from_parameters(config, &set)
    }

    /// Returns a frozen network with these parameters, on the CPU. Unused entries are ignored.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing or has another shape.
    pub fn from_parameters(config: ResNetConfig, set: &ParameterSet) -> Result<Self, ModelError> {
        ResNet::frozen_at(config, set, &DeviceSpec::cpu())
    }

    /// Returns [`ResNet::from_parameters`] on another device.
    ///
    /// # Errors
    /// Fails as [`ResNet::from_parameters`] does, and if the device has no room.
    pub fn frozen_at(
        config: ResNetConfig,
        set: &ParameterSet,
        place: &DeviceSpec,
    ) -> Result<Self, ModelError> {
        let (own, buffers) = ResNet::own(&config, set)?;
        let named = own
            .iter()
            .map(|(name, parameter)| Ok((Arc::clone(name), parameter.tensor(&place.device)?)))
            .collect::<Result<_, ModelError>>()?;
        ResNet::assemble(config, (named, false), &buffers, Variables::new(), place)
    }

    /// Returns a frozen copy of this network on another device.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn at(&self, place: &DeviceSpec) -> Result<ResNet, ModelError> {
        ResNet::frozen_at(self.config, &self.parameters()?, place)
    }

    /// Returns the network over new variables on the CPU. Every parameter except buffers trains.
    ///
    /// # Errors
    /// Fails as [`ResNet::from_parameters`] does.
    pub fn with_trainables(config: ResNetConfig, set: &ParameterSet) -> Result<Self, ModelError> {
        ResNet::trainable_at(config, set, &DeviceSpec::cpu())
    }

    /// Returns [`ResNet::with_trainables`] on another device. Variables are always `f32`.
    ///
    /// # Errors
    /// Fails as [`ResNet::frozen_at`] does.
    pub fn trainable_at(
        config: ResNetConfig,
        set: &ParameterSet,
        place: &DeviceSpec,
    ) -> Result<Self, ModelError> {
        ResNet::over_variables(config, set, place, true)
    }

    /// Returns a network over variables whose batch norms use running statistics and do not update them.
    ///
    /// It serves gradients of single samples.
    ///
    /// # Errors
    /// Fails as [`ResNet::frozen_at`] does.
    pub fn evaluating_at(
        config: ResNetConfig,
        set: &ParameterSet,
        place: &DeviceSpec,
    ) -> Result<Self, ModelError> {
        ResNet::over_variables(config, set, place, false)
    }

    fn over_variables(
        config: ResNetConfig,
        set: &ParameterSet,
        place: &DeviceSpec,
        trains: bool,
    ) -> Result<Self, ModelError> {
        let (own, buffers) = ResNet::own(&config, set)?;
        let variables = own.variables(&place.device)?;
        let named = variables.iter().map(|(n, v)| (Arc::clone(n), v.as_tensor().clone())).collect();
        ResNet::assemble(config, (named, trains), &buffers, variables, place)
    }

    /// Returns the parameters and buffers of this network in `set`.
    fn own(
        config: &ResNetConfig,
        set: &ParameterSet,
    ) -> Result<(ParameterSet, ParameterSet), ModelError> {
        let (mut own, mut buffers) = (ParameterSet::new(), ParameterSet::new());
        for (name, shape) in config.parameter_shapes() {
            let parameter = set.expect("parameter set", &name, &shape)?.clone();
            if is_buffer(&name) { &mut buffers } else { &mut own }.insert(name, parameter);
        }
        Ok((own, buffers))
    }

    fn assemble(
        config: ResNetConfig,
        (named, trains): (BTreeMap<Arc<str>, Tensor>, bool),
        buffers: &ParameterSet,
        variables: Variables,
        place: &DeviceSpec,
    ) -> Result<ResNet, ModelError> {
        config.validate()?;
        let mut running = BTreeMap::new();
        let mut unit = |convolution: &str,
                        norm: &str,
                        stride: usize|
         -> Result<ConvNorm, ModelError> {
            let buffer = |name: &str| {
                let name = format!("{norm}{name}");
                let (_, parameter) = buffers.iter().find(|(n, _)| ***n == *name).expect("checked");
                parameter.tensor(&place.device)
            };
            let state = Arc::new(Mutex::new(Running {
                mean: buffer(MEAN)?,
                variance: buffer(VARIANCE)?,
                batches: buffer(BATCHES)?,
            }));
            running.insert(Arc::from(norm), Arc::clone(&state));
            let weight = named[&*format!("{norm}.weight")].clone();
            let bias = named[&*format!("{norm}.bias")].clone();
            let norm = Norm { weight, bias, running: state, trains, eps: NORM_EPS };
            Ok(ConvNorm { weight: named[&*format!("{convolution}.weight")].clone(), norm, stride })
        };
        let stem = unit("conv1", "bn1", StemShape::of(config.stem).stride)?;
        let mut blocks = Vec::new();
        for shape in config.block_shapes() {
            let name = |layer: &str| format!("{}{layer}", shape.prefix());
            blocks.push(ResidualBlock {
                first: unit(&name("conv1"), &name("bn1"), shape.stride)?,
                second: unit(&name("conv2"), &name("bn2"), 1)?,
                downsample: match shape.reshapes() {
                    true => Some(unit(&name("downsample.0"), &name("downsample.1"), shape.stride)?),
                    false => None,
                },
            });
        }
        let digest = OnceLock::new();
        let place = place.clone();
        Ok(ResNet { config, stem, blocks, named, running, variables, digest, place })
    }

    /// Returns the device of its tensors, with the type between pixels and features.
    pub fn place(&self) -> &DeviceSpec {
        &self.place
    }

    /// Returns the dimensions.
    pub fn config(&self) -> &ResNetConfig {
        &self.config
    }

    /// Returns the variables, sorted by name; empty for a frozen network.
    pub fn variables(&self) -> &[(Arc<str>, Var)] {
        &self.variables
    }

    /// Copies the current values of all parameters and buffers.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        let mut set = self.buffers()?;
        for (name, tensor) in &self.named {
            set.insert(Arc::clone(name), Parameter::of(tensor)?);
        }
        Ok(set)
    }

    /// Returns the digest of the current parameters and buffers; computed once if they are frozen.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn digest(&self) -> Result<blake3::Hash, ModelError> {
        if let Some(known) = self.digest.get() {
            return Ok(*known);
        }
        let digest = self.parameters()?.digest();
        if self.variables.is_empty() {
            // If another thread was faster, its result is the same.
            let _ = self.digest.set(digest);
        }
        Ok(digest)
    }

    /// Copies the current values of buffers: running means, variances and numbers of batches.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn buffers(&self) -> Result<ParameterSet, ModelError> {
        let mut set = ParameterSet::new();
        for (layer, running) in &self.running {
            let running = running.lock().clone();
            let Running { mean, variance, batches } = running;
            for (name, tensor) in [(MEAN, mean), (VARIANCE, variance), (BATCHES, batches)] {
                set.insert(format!("{layer}{name}"), Parameter::of(&tensor)?);
            }
        }
        Ok(set)
    }

    /// Returns globally averaged features `(b, 8 width)` of normalized `pixels` `(b, c, h, w)`.
    ///
    /// # Errors
    /// Returns an error if the pixels do not fit.
    pub fn features(&self, pixels: &Tensor) -> Result<Tensor, ModelError> {
        self.pass(pixels, None)
    }

    /// Returns [`features`](ResNet::features), and the inputs of all batch norms in the order of the pass.
    ///
    /// # Errors
    /// Returns an error if the pixels do not fit.
    pub fn tapped_features(&self, pixels: &Tensor) -> Result<(Tensor, Vec<NormInput>), ModelError> {
        let mut inputs = Vec::with_capacity(self.running.len());
        let features = self.pass(pixels, Some(&mut inputs))?;
        Ok((features, inputs))
    }

    fn pass(&self, pixels: &Tensor, mut taps: Taps<'_>) -> Result<Tensor, ModelError> {
        let (_, channels, _, _) = pixels.dims4()?;
        if channels != self.config.channels {
            let reason = format!(
                "the network takes images of {} channels, got {channels}",
                self.config.channels
            );
            return Err(ModelError::Input { reason });
        }
        // Channels last from here on, as the convolutions need them.
        let mut x = pixels.to_dtype(self.place.compute)?.permute((0, 2, 3, 1))?.contiguous()?;
        x = self.stem.forward(&x, None, true, taps.as_deref_mut())?;
        if let Some([kernel, stride, padding]) = StemShape::of(self.config.stem).pool {
            x = ops::max_pool(&x, kernel, stride, padding)?;
        }
        for block in &self.blocks {
            x = block.forward(&x, taps.as_deref_mut())?;
        }
        Ok(ops::mean(&x.to_dtype(DType::F32)?.flatten(1, 2)?, 1)?)
    }
}

#[cfg(test)]
mod tests;
