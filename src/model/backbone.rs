//! Backbone of any kind, which turns inputs into features.
//!
//! A method that only needs features calls [`Backbone::features`]; one that uses the blocks of a transformer calls
//! [`Backbone::vit`], and refuses other backbones when the scenario is checked.
//!
//! ```
//! use candle_core::{DType, Device, Tensor};
//! use fedcast::model::{Adaptation, Backbone, BackboneConfig, ParameterSet, PixelShape};
//! # fn main() -> Result<(), fedcast::model::ModelError> {
//! let config = BackboneConfig::Pixels(PixelShape { channels: 3, image: 32 });
//! let pixels = Backbone::from_parameters(&config, &ParameterSet::new())?;
//! let images = Tensor::zeros((2, 3, 32, 32), DType::F32, &Device::Cpu)?;
//! assert_eq!(pixels.features(&images, &Adaptation::none())?.dims(), [2, 3_072]);
//! # Ok(())
//! # }
//! ```

mod config;
mod cost;

use std::sync::Arc;

use candle_core::{DType, Device, Tensor, Var};

pub use config::{BackboneConfig, PixelShape};

use super::ops::{Precision, SampleGroups};
use super::{
    Adaptation, Bert, DeepResNet, DeviceSpec, ModelError, NormInput, ParameterSet, ResNet, Vit,
};

/// Feature extractor, frozen or over variables.
#[derive(Clone, Debug)]
pub enum Backbone {
    /// Vision transformer. A feature is CLS after the final norm.
    Vit(Vit),
    /// Residual network. A feature is the global average of the last stage.
    ///
    /// Over variables it trains: batch norms use the moments of the batch, and a forward pass updates their running
    /// statistics.
    ResNet(ResNet),
    /// Deep residual network with pretrained weights, frozen only.
    ///
    /// A feature is the global average of the last stage.
    DeepResNet(DeepResNet),
    /// Encoder of token sequences, frozen only.
    Bert(Bert),
    /// No network: a feature is the image itself in channel, row, column order.
    ///
    /// A linear head on it is logistic regression.
    Pixels(PixelShape),
}

impl Backbone {
    /// Returns a frozen backbone with these parameters. Unused entries are ignored.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing or has another shape.
    pub fn from_parameters(
        config: &BackboneConfig,
        set: &ParameterSet,
    ) -> Result<Backbone, ModelError> {
        Ok(match config {
            BackboneConfig::Vit(vit) => Backbone::Vit(Vit::from_parameters(*vit, set)?),
            BackboneConfig::ResNet(network) => {
                Backbone::ResNet(ResNet::from_parameters(*network, set)?)
            }
            BackboneConfig::DeepResNet(network) => {
                Backbone::DeepResNet(DeepResNet::from_parameters(*network, set)?)
            }
            BackboneConfig::Bert(bert) => Backbone::Bert(Bert::from_parameters(*bert, set)?),
            BackboneConfig::Pixels(shape) => Backbone::Pixels(*shape),
        })
    }

    /// Returns the backbone over new variables: every parameter trains.
    ///
    /// # Errors
    /// Fails as [`Backbone::from_parameters`] does, and for backbones that are only frozen.
    pub fn with_trainables(
        config: &BackboneConfig,
        set: &ParameterSet,
    ) -> Result<Backbone, ModelError> {
        Ok(match config {
            BackboneConfig::Vit(vit) => Backbone::Vit(Vit::with_trainables(*vit, set)?),
            BackboneConfig::ResNet(network) => {
                Backbone::ResNet(ResNet::with_trainables(*network, set)?)
            }
            BackboneConfig::DeepResNet(_) | BackboneConfig::Bert(_) => {
                return Err(config.frozen_only());
            }
            BackboneConfig::Pixels(shape) => Backbone::Pixels(*shape),
        })
    }

    /// Returns a frozen backbone like this one, on its device, with other parameters.
    ///
    /// # Errors
    /// Fails as [`Backbone::from_parameters`] does.
    pub fn frozen_here(&self, set: &ParameterSet) -> Result<Backbone, ModelError> {
        Ok(match self {
            Backbone::Vit(vit) => Vit::frozen_at(*vit.config(), set, vit.place())?.into(),
            Backbone::ResNet(network) => {
                ResNet::frozen_at(*network.config(), set, network.place())?.into()
            }
            Backbone::DeepResNet(network) => {
                let there = DeepResNet::from_parameters(*network.config(), set)?;
                there.at(network.place())?.into()
            }
            Backbone::Bert(bert) => {
                Bert::from_parameters(*bert.config(), set)?.at(bert.place())?.into()
            }
            Backbone::Pixels(shape) => Backbone::Pixels(*shape),
        })
    }

    /// Returns this backbone over new variables.
    ///
    /// # Errors
    /// Fails as [`Backbone::with_trainables`] does.
    pub fn trainable_here(&self, set: &ParameterSet) -> Result<Backbone, ModelError> {
        Ok(match self {
            Backbone::Vit(vit) => Vit::trainable_at(*vit.config(), set, vit.place())?.into(),
            Backbone::ResNet(network) => {
                ResNet::trainable_at(*network.config(), set, network.place())?.into()
            }
            Backbone::DeepResNet(_) | Backbone::Bert(_) => {
                return Err(self.config().frozen_only());
            }
            Backbone::Pixels(shape) => Backbone::Pixels(*shape),
        })
    }

    /// Returns this backbone over new variables, in evaluation mode.
    ///
    /// Batch norms use their running statistics and do not update them.
    ///
    /// # Errors
    /// Fails as [`Backbone::with_trainables`] does.
    pub fn evaluating_here(&self, set: &ParameterSet) -> Result<Backbone, ModelError> {
        match self {
            Backbone::ResNet(network) => {
                Ok(ResNet::evaluating_at(*network.config(), set, network.place())?.into())
            }
            _ => self.trainable_here(set),
        }
    }

    /// Returns a frozen copy on another device.
    ///
    /// # Errors
    /// Returns an error if there is no room, or for [`Backbone::Pixels`] on other devices than the CPU.
    pub fn to_device(&self, place: &DeviceSpec) -> Result<Backbone, ModelError> {
        match self {
            Backbone::Vit(vit) => Ok(vit.at(place)?.into()),
            Backbone::ResNet(network) => Ok(network.at(place)?.into()),
            Backbone::DeepResNet(network) => Ok(network.at(place)?.into()),
            Backbone::Bert(bert) => Ok(bert.at(place)?.into()),
            Backbone::Pixels(shape) if place.device.is_cpu() => Ok(Backbone::Pixels(*shape)),
            Backbone::Pixels(_) => Err(ModelError::Input {
                reason: "a backbone of kind \"pixels\" computes on the CPU; \
                         set devices.use = [\"cpu\"]"
                    .to_owned(),
            }),
        }
    }

    /// Returns the device on which the backbone computes, and the type.
    pub fn place(&self) -> &DeviceSpec {
        static CPU: DeviceSpec =
            DeviceSpec { device: Device::Cpu, compute: DType::F32, products: Precision::F32 };
        match self {
            Backbone::Vit(vit) => vit.place(),
            Backbone::ResNet(network) => network.place(),
            Backbone::DeepResNet(network) => network.place(),
            Backbone::Bert(bert) => bert.place(),
            Backbone::Pixels(_) => &CPU,
        }
    }

    /// Returns the dimensions.
    pub fn config(&self) -> BackboneConfig {
        match self {
            Backbone::Vit(vit) => BackboneConfig::Vit(*vit.config()),
            Backbone::ResNet(network) => BackboneConfig::ResNet(*network.config()),
            Backbone::DeepResNet(network) => BackboneConfig::DeepResNet(*network.config()),
            Backbone::Bert(bert) => BackboneConfig::Bert(*bert.config()),
            Backbone::Pixels(shape) => BackboneConfig::Pixels(*shape),
        }
    }

    /// Returns the width of a feature.
    pub fn dim(&self) -> usize {
        self.config().dim()
    }

    /// Returns the transformer, if it is one.
    pub fn vit(&self) -> Option<&Vit> {
        match self {
            Backbone::Vit(vit) => Some(vit),
            _ => None,
        }
    }

    /// Returns features `(b, dim)` of normalized `pixels` `(b, c, h, w)`.
    ///
    /// # Errors
    /// Returns an error if pixels or adaptation do not fit.
    pub fn features(&self, pixels: &Tensor, adaptation: &Adaptation) -> Result<Tensor, ModelError> {
        match self {
            Backbone::Vit(vit) => vit.features(pixels, adaptation),
            _ if adaptation.first_adapted_block().is_some() => {
                Err(self.config().no_blocks_for("an adaptation"))
            }
            Backbone::ResNet(network) => match &adaptation.groups {
                Some(groups) if pixels.device().is_cpu() => {
                    each_alone(pixels, groups, |pixels| network.features(pixels))
                }
                _ => network.features(pixels),
            },
            Backbone::DeepResNet(network) => network.features(pixels),
            Backbone::Bert(bert) => bert.features(pixels),
            Backbone::Pixels(PixelShape { channels, image }) => {
                let (_, c, h, w) = pixels.dims4()?;
                if (c, h, w) != (*channels, *image, *image) {
                    let reason = format!(
                        "features are {channels} x {image} x {image} pixels, got {c} x {h} x {w}; \
                         let every transform end at the same size"
                    );
                    return Err(ModelError::Input { reason });
                }
                Ok(pixels.flatten_from(1)?)
            }
        }
    }

    /// Returns features of `pixels` and the inputs of batch norms.
    ///
    /// Only [`ResNet`](Backbone::ResNet) returns inputs; other backbones return none.
    ///
    /// # Errors
    /// Returns an error if the pixels do not fit.
    pub fn tapped_features(&self, pixels: &Tensor) -> Result<(Tensor, Vec<NormInput>), ModelError> {
        match self {
            Backbone::ResNet(network) => network.tapped_features(pixels),
            _ => Ok((self.features(pixels, &Adaptation::none())?, Vec::new())),
        }
    }

    /// Continues [`Backbone::features`] for tokens `(b, n, d)` that passed the blocks below `first`.
    ///
    /// # Errors
    /// Returns an error if tokens or adaptation do not fit, or there are no blocks.
    pub fn features_from(
        &self,
        tokens: &Tensor,
        first: usize,
        adaptation: &Adaptation,
    ) -> Result<Tensor, ModelError> {
        match self {
            Backbone::Vit(vit) => {
                vit.features_from(&tokens.to_dtype(vit.place().compute)?, first, adaptation)
            }
            _ => Err(self.config().no_blocks_for("a stream of tokens")),
        }
    }

    /// Returns the variables, sorted by name; empty for a frozen backbone.
    pub fn variables(&self) -> &[(Arc<str>, Var)] {
        match self {
            Backbone::Vit(vit) => vit.variables(),
            Backbone::ResNet(network) => network.variables(),
            Backbone::DeepResNet(_) | Backbone::Bert(_) | Backbone::Pixels(_) => &[],
        }
    }

    /// Copies the current values of all parameters and buffers.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        match self {
            Backbone::Vit(vit) => vit.parameters(),
            Backbone::ResNet(network) => network.parameters(),
            Backbone::DeepResNet(network) => network.parameters(),
            Backbone::Bert(bert) => bert.parameters(),
            Backbone::Pixels(_) => Ok(ParameterSet::new()),
        }
    }

    /// Copies the current values of buffers, the running statistics of batch norms.
    ///
    /// They are sent and averaged, but no optimizer changes them. A transformer has none.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn buffers(&self) -> Result<ParameterSet, ModelError> {
        match self {
            Backbone::ResNet(network) => network.buffers(),
            _ => Ok(ParameterSet::new()),
        }
    }

    /// Returns true if `set` holds parameters of the whole backbone: full fine-tuning.
    pub fn is_in(&self, set: &ParameterSet) -> bool {
        match self {
            Backbone::Vit(_) => set.get("cls_token").is_some(),
            Backbone::ResNet(_) => set.get("conv1.weight").is_some(),
            Backbone::DeepResNet(_) | Backbone::Bert(_) | Backbone::Pixels(_) => false,
        }
    }

    /// Returns the backbone hash of manifests and caches, the digest of the parameters.
    ///
    /// It is computed once for a frozen backbone.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn digest(&self) -> Result<blake3::Hash, ModelError> {
        match self {
            Backbone::Vit(vit) => vit.digest(),
            Backbone::ResNet(network) => network.digest(),
            Backbone::DeepResNet(network) => network.digest(),
            Backbone::Bert(bert) => bert.digest(),
            Backbone::Pixels(_) => Ok(ParameterSet::new().digest()),
        }
    }
}

impl From<ResNet> for Backbone {
    fn from(network: ResNet) -> Backbone {
        Backbone::ResNet(network)
    }
}

impl From<DeepResNet> for Backbone {
    fn from(network: DeepResNet) -> Backbone {
        Backbone::DeepResNet(network)
    }
}

impl From<Bert> for Backbone {
    fn from(bert: Bert) -> Backbone {
        Backbone::Bert(bert)
    }
}

/// Computes the features of a pack's members one after the other. So no member's bits depend on another.
fn each_alone(
    pixels: &Tensor,
    groups: &SampleGroups,
    features: impl Fn(&Tensor) -> Result<Tensor, ModelError>,
) -> Result<Tensor, ModelError> {
    if groups.sizes().contains(&pixels.dim(0)?) {
        return features(pixels);
    }
    let runs = groups.runs().filter(|run| !run.is_empty());
    let parts: Vec<Tensor> = runs
        .map(|run| features(&pixels.narrow(0, run.start, run.len())?))
        .collect::<Result<_, _>>()?;
    Ok(Tensor::cat(&parts, 0)?)
}

impl From<Vit> for Backbone {
    fn from(vit: Vit) -> Backbone {
        Backbone::Vit(vit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ResNetConfig, VitConfig};
    use crate::numerics::streams::{Domain, StreamKey};

    fn pixels() -> Backbone {
        Backbone::Pixels(PixelShape { channels: 2, image: 2 })
    }

    #[test]
    fn pixels_pass_through_in_order_and_have_no_parameters() -> Result<(), ModelError> {
        let images = Tensor::arange(0f32, 16.0, &Device::Cpu)?.reshape((2, 2, 2, 2))?;
        let features = pixels().features(&images, &Adaptation::none())?;
        assert_eq!(
            features.flatten_all()?.to_vec1::<f32>()?,
            (0..16).map(|v| v as f32).collect::<Vec<_>>()
        );
        assert_eq!((features.dims(), pixels().dim()), (&[2, 8][..], 8));
        assert!(pixels().parameters()?.is_empty() && pixels().variables().is_empty());
        assert!(pixels().config().parameter_shapes().is_empty());
        Ok(())
    }

    #[test]
    fn pixels_refuse_other_sizes_and_prompts() -> Result<(), ModelError> {
        let wide = Tensor::zeros((1, 2, 2, 3), DType::F32, &Device::Cpu)?;
        let error = pixels().features(&wide, &Adaptation::none()).unwrap_err().to_string();
        assert!(error.contains("2 x 2 x 2 pixels, got 2 x 2 x 3"), "{error}");
        let images = Tensor::zeros((1, 2, 2, 2), DType::F32, &Device::Cpu)?;
        let prompt = Adaptation::prompts([&Tensor::zeros((2, 8), DType::F32, &Device::Cpu)?])?;
        let error = pixels().features(&images, &prompt).unwrap_err().to_string();
        assert!(error.contains("the backbone is \"pixels\""), "{error}");
        Ok(())
    }

    #[test]
    fn a_member_of_a_pack_gets_the_convolutions_it_gets_alone() -> Result<(), ModelError> {
        let config = ResNetConfig {
            image: 8,
            channels: 3,
            width: 4,
            blocks: [1; 4],
            ..ResNetConfig::default()
        };
        let set = ResNet::initial_parameters(&config, StreamKey::new(1, Domain::Init));
        let network: Backbone = ResNet::from_parameters(config, &set)?.into();
        let values: Vec<f32> = (0..3 * 3 * 64).map(|i| (i as f32 * 0.7).sin()).collect();
        let images = Tensor::from_vec(values, (3, 3, 8, 8), &Device::Cpu)?;
        let groups = SampleGroups::new([1, 0, 2]);
        let pack = Adaptation::none().grouped(&groups);
        let together = network.features(&images, &pack)?.to_vec2::<f32>()?;
        for run in groups.runs().filter(|run| !run.is_empty()) {
            let own = images.narrow(0, run.start, run.len())?;
            let alone = network.features(&own, &Adaptation::none())?;
            assert_eq!(together[run], alone.to_vec2::<f32>()?);
        }
        Ok(())
    }

    #[test]
    fn the_digest_is_that_of_the_parameters_also_while_they_train() -> Result<(), ModelError> {
        let config = VitConfig {
            image: 4,
            patch: 2,
            dim: 4,
            depth: 1,
            heads: 1,
            mlp: 4,
            ..VitConfig::default()
        };
        let set = Vit::initial_parameters(&config, StreamKey::new(1, Domain::Init));
        let frozen = Backbone::from_parameters(&config.into(), &set)?;
        assert_eq!((frozen.digest()?, frozen.digest()?), (set.digest(), set.digest()));
        let trained = Backbone::with_trainables(&config.into(), &set)?;
        assert_eq!(trained.digest()?, set.digest());
        let (_, variable) = &trained.variables()[0];
        variable.set(&variable.affine(1.0, 1.0)?)?;
        assert_ne!(trained.digest()?, set.digest());
        assert!(frozen.is_in(&set) && !pixels().is_in(&set));
        Ok(())
    }
}
