//! The network: candle's layers over tensors that we hold by name.

use candle_core::{DType, Tensor};
use candle_nn::{Func, Module};
use candle_transformers::models::resnet;

use super::{DeepResNetConfig, Depth};
use crate::model::frozen_weights::FrozenWeights;
use crate::model::parameters::ParameterSet;
use crate::model::weights_file::{OpenWeights, WeightsSource};
use crate::model::{ModelError, Place};
use crate::weights::Network;

/// A frozen residual network with torchvision's parameters.
#[derive(Clone, Debug)]
pub struct DeepResNet {
    config: DeepResNetConfig,
    network: Func<'static>,
    weights: FrozenWeights,
    place: Place,
}

impl DeepResNet {
    /// Reads a file of weights in torchvision's names; its classifier (`fc.*`) and counters of batches are passed
    /// over.
    ///
    /// # Errors
    /// Told by file and tensor, see [`ModelError`].
    pub fn load(source: &WeightsSource, config: DeepResNetConfig) -> Result<Self, ModelError> {
        let opened = OpenWeights::open(source)?;
        let set = opened.parameters(Network::ResNet, config.parameter_shapes())?;
        DeepResNet::read(&source.name, config, &set)
    }

    /// A network with these parameters (entries it has no place for are ignored), on the CPU.
    ///
    /// # Errors
    /// When a parameter is missing or of another shape.
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
        let place = Place::cpu();
        let weights = FrozenWeights::read(file, config.parameter_shapes(), set)?;
        let network = assemble(config, &weights, &place)?;
        Ok(DeepResNet { config, network, weights, place })
    }

    /// A copy at another place.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn at(&self, place: &Place) -> Result<DeepResNet, ModelError> {
        let network = assemble(self.config, &self.weights, place)?;
        Ok(DeepResNet { network, place: place.clone(), ..self.clone() })
    }

    /// Where it computes. Between pixels and features it does so in the type of the place.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The dimensions.
    pub fn config(&self) -> &DeepResNetConfig {
        &self.config
    }

    /// Copies all parameters and running statistics.
    ///
    /// # Errors
    /// What the device reports.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        self.weights.parameters()
    }

    /// Digest of all of them, computed once.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<blake3::Hash, ModelError> {
        self.weights.digest()
    }

    /// `pixels` `(b, 3, h, w)`, normalised, to globally averaged features `(b, 2048)`.
    ///
    /// # Errors
    /// When the pixels do not fit.
    pub fn features(&self, pixels: &Tensor) -> Result<Tensor, ModelError> {
        let (_, channels, _, _) = pixels.dims4()?;
        if channels != DeepResNetConfig::CHANNELS {
            let reason = format!("the network takes images of 3 channels, got {channels}");
            return Err(ModelError::Input { reason });
        }
        let features = self.network.forward(&pixels.to_dtype(self.place.compute)?)?;
        Ok(features.to_dtype(DType::F32)?)
    }
}

fn assemble(
    config: DeepResNetConfig,
    weights: &FrozenWeights,
    place: &Place,
) -> Result<Func<'static>, ModelError> {
    let tensors = weights.at(place)?;
    Ok(match config.depth {
        Depth::Fifty => resnet::resnet50_no_final_layer(tensors)?,
        Depth::HundredFiftyTwo => resnet::resnet152_no_final_layer(tensors)?,
    })
}
