//! Deep residual network: stem, stages of bottlenecks, global average.

use std::sync::Arc;

use candle_core::{DType, Tensor};

use super::DeepResNetConfig;
use super::bottleneck::{Bottleneck, FrozenConvNorm};
use crate::model::frozen_weights::FrozenWeights;
use crate::model::parameters::ParameterSet;
use crate::model::weights_file::{OpenWeights, WeightsSource};
use crate::model::{DeviceSpec, ModelError, ops};
use crate::weights::Network;

/// Frozen residual network with torchvision's parameters.
#[derive(Clone, Debug)]
pub struct DeepResNet {
    config: DeepResNetConfig,
    layers: Arc<Layers>,
    weights: FrozenWeights,
    place: DeviceSpec,
}

impl DeepResNet {
    /// Reads a file of weights with torchvision's names.
    ///
    /// Its classifier (`fc.*`) and counters of batches are skipped.
    ///
    /// # Errors
    /// Returns a [`ModelError`] that names file and tensor.
    pub fn load(source: &WeightsSource, config: DeepResNetConfig) -> Result<Self, ModelError> {
        let opened = OpenWeights::open(source)?;
        let set = opened.parameters(Network::ResNet, config.parameter_shapes())?;
        DeepResNet::read(&source.name, config, &set)
    }

    /// Returns a network with these parameters, on the CPU. Unused entries are ignored.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing or has another shape.
    pub fn from_parameters(
        config: DeepResNetConfig,
        set: &ParameterSet,
    ) -> Result<DeepResNet, ModelError> {
        DeepResNet::read("parameter set", config, set)
    }

    fn read(
        file: &str,
        config: DeepResNetConfig,
        set: &ParameterSet,
    ) -> Result<DeepResNet, ModelError> {
        let place = DeviceSpec::cpu();
        let weights = FrozenWeights::read(file, config.parameter_shapes(), set)?;
        let layers = Arc::new(Layers::new(config, &weights, &place)?);
        Ok(DeepResNet { config, layers, weights, place })
    }

    /// Returns a copy on another device.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn at(&self, place: &DeviceSpec) -> Result<DeepResNet, ModelError> {
        let layers = Arc::new(Layers::new(self.config, &self.weights, place)?);
        Ok(DeepResNet { layers, place: place.clone(), ..self.clone() })
    }

    /// Returns the device on which the network computes, with the type between pixels and features.
    pub fn place(&self) -> &DeviceSpec {
        &self.place
    }

    /// Returns the dimensions.
    pub fn config(&self) -> &DeepResNetConfig {
        &self.config
    }

    /// Copies all parameters and running statistics.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        self.weights.parameters()
    }

    /// Returns the digest of parameters and running statistics, computed once.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn digest(&self) -> Result<blake3::Hash, ModelError> {
        self.weights.digest()
    }

    /// Returns globally averaged features `(b, 2048)` of normalized `pixels` `(b, 3, h, w)`.
    ///
    /// # Errors
    /// Returns an error if the pixels do not fit.
    pub fn features(&self, pixels: &Tensor) -> Result<Tensor, ModelError> {
        let (_, channels, _, _) = pixels.dims4()?;
        if channels != DeepResNetConfig::CHANNELS {
            let reason = format!("the network takes images of 3 channels, got {channels}");
            return Err(ModelError::Input { reason });
        }
        // Channels last from here on, as the convolutions need them.
        let x = pixels.to_dtype(self.place.compute)?.permute((0, 2, 3, 1))?.contiguous()?;
        let x = self.layers.forward(&x)?.to_dtype(DType::F32)?;
        Ok(ops::mean(&x.flatten(1, 2)?, 1)?)
    }
}

/// Layers in the order of the network.
#[derive(Debug)]
struct Layers {
    stem: FrozenConvNorm,
    blocks: Vec<Bottleneck>,
}

impl Layers {
    fn new(
        config: DeepResNetConfig,
        weights: &FrozenWeights,
        place: &DeviceSpec,
    ) -> Result<Layers, ModelError> {
        let unit = |convolution: &str, norm: &str, stride| {
            FrozenConvNorm::new((weights, place), convolution, norm, stride)
        };
        let mut blocks = Vec::new();
        for (stage, count) in config.depth.blocks().into_iter().enumerate() {
            for block in 0..count {
                let name = |layer: &str| format!("layer{}.{block}.{layer}", stage + 1);
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                blocks.push(Bottleneck {
                    first: unit(&name("conv1"), &name("bn1"), 1)?,
                    second: unit(&name("conv2"), &name("bn2"), stride)?,
                    third: unit(&name("conv3"), &name("bn3"), 1)?,
                    downsample: match block {
                        0 => Some(unit(&name("downsample.0"), &name("downsample.1"), stride)?),
                        _ => None,
                    },
                });
            }
        }
        Ok(Layers { stem: unit("conv1", "bn1", 2)?, blocks })
    }

    /// Returns the last stage's output `(b, h / 32, w / 32, 2048)` for pixels `(b, h, w, 3)`.
    fn forward(&self, pixels: &Tensor) -> candle_core::Result<Tensor> {
        let stem = self.stem.forward(pixels, None, true)?;
        let start = ops::max_pool(&stem, 3, 2, 1)?;
        self.blocks.iter().try_fold(start, |x, block| block.forward(&x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::deep_resnet::Depth;
    use crate::model::ops::testing::draw;
    use crate::model::{Parameter, ParameterSet};
    use candle_core::Device;
    use candle_nn::{Module, VarBuilder};
    use candle_transformers::models::resnet::resnet50_no_final_layer;

    /// Another implementation of the architecture agrees.
    #[test]
    fn features_are_those_of_candle_transformers() -> Result<(), ModelError> {
        let (config, device) = (DeepResNetConfig { depth: Depth::Fifty, image: 64 }, Device::Cpu);
        let filled = |(name, shape): (String, Vec<usize>)| -> Result<_, ModelError> {
            let inputs = shape.iter().skip(1).product::<usize>() as f64;
            let values = draw(&name, shape.clone());
            let values = match shape.len() {
                1 if name.ends_with(".running_mean") || name.ends_with(".bias") => values * 0.1,
                // The last norm of a block, so that sixteen of them do not add up.
                1 if name.ends_with("bn3.weight") => values * 0.2,
                1 => (values * 0.1)? + 1.0,
                _ => values * (2.0 / inputs.sqrt()),
            };
            let values = values?.flatten_all()?.to_vec1::<f32>()?.into();
            Ok((name, Parameter { shape, values }))
        };
        let set = config.parameter_shapes().into_iter().map(filled);
        let set = set.collect::<Result<ParameterSet, ModelError>>()?;
        let pixels = draw("pixels", (2, 3, 64, 64));
        let ours = DeepResNet::from_parameters(config, &set)?.features(&pixels)?;

        let tensors = set.iter().map(|(name, p)| Ok((name.to_string(), p.tensor(&device)?)));
        let tensors = tensors.collect::<Result<_, ModelError>>()?;
        let candle =
            resnet50_no_final_layer(VarBuilder::from_tensors(tensors, DType::F32, &device))?;
        let theirs = candle.forward(&pixels)?;
        let largest = |t: &Tensor| t.abs()?.max_all()?.to_scalar::<f32>();
        let (off, size) = (largest(&(ours - &theirs)?)?, largest(&theirs)?);
        assert!(size > 0.1 && off < 1e-5 * size, "off by {off} of {size}");
        Ok(())
    }
}
