//! Configuration of a backbone, without its parameters.

use super::super::deep_resnet::Depth;
use super::super::{BertConfig, DeepResNetConfig, ModelError, ResNetConfig, VitConfig};

/// Dimensions of a [`Backbone`](super::Backbone), known before any weight is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BackboneConfig {
    /// Vision transformer.
    Vit(VitConfig),
    /// Residual network for small images.
    ResNet(ResNetConfig),
    /// A deep residual network with pretrained weights, frozen only.
    DeepResNet(DeepResNetConfig),
    /// Encoder of token sequences, frozen only.
    Bert(BertConfig),
    /// Unchanged pixels, without a network.
    Pixels(PixelShape),
}

/// Shape of the images of a [`Backbone::Pixels`](super::Backbone::Pixels).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PixelShape {
    /// Color channels.
    pub channels: usize,
    /// Side of the (square) image in pixels.
    pub image: usize,
}

impl BackboneConfig {
    /// Returns the value of `backbone.kind` in a scenario.
    pub fn kind(&self) -> &'static str {
        match self {
            BackboneConfig::Vit(_) => "vit",
            BackboneConfig::ResNet(_) => "resnet18",
            BackboneConfig::DeepResNet(network) => match network.depth {
                Depth::Fifty => "resnet50",
                Depth::HundredFiftyTwo => "resnet152",
            },
            BackboneConfig::Bert(_) => "bert",
            BackboneConfig::Pixels(_) => "pixels",
        }
    }

    /// Returns the width of a feature.
    pub fn dim(&self) -> usize {
        match self {
            BackboneConfig::Vit(vit) => vit.dim,
            BackboneConfig::ResNet(network) => network.dim(),
            BackboneConfig::DeepResNet(_) => DeepResNetConfig::DIM,
            BackboneConfig::Bert(bert) => bert.hidden,
            BackboneConfig::Pixels(PixelShape { channels, image }) => channels * image * image,
        }
    }

    /// Returns `[channels, height, width]` of its images; for text `[1, 1, tokens]`.
    pub fn input(&self) -> [usize; 3] {
        let (channels, image) = match self {
            BackboneConfig::Vit(vit) => (vit.channels, vit.image),
            BackboneConfig::ResNet(network) => (network.channels, network.image),
            BackboneConfig::DeepResNet(network) => (DeepResNetConfig::CHANNELS, network.image),
            BackboneConfig::Bert(bert) => return [1, 1, bert.length],
            BackboneConfig::Pixels(shape) => (shape.channels, shape.image),
        };
        [channels, image, image]
    }

    /// Returns the dimensions of the transformer, if it is one.
    pub fn vit(&self) -> Option<&VitConfig> {
        match self {
            BackboneConfig::Vit(vit) => Some(vit),
            _ => None,
        }
    }

    /// Returns the dimensions of the transformer, whose blocks `what` needs.
    ///
    /// # Errors
    /// Returns an error that names `what` if the backbone is no transformer.
    pub fn blocks_for(&self, what: &str) -> Result<&VitConfig, ModelError> {
        self.vit().ok_or_else(|| self.no_blocks_for(what))
    }

    pub(in crate::model) fn no_blocks_for(&self, what: &str) -> ModelError {
        let kind = self.kind();
        ModelError::Input {
            reason: format!(
                "{what} needs the blocks of a vision transformer, and the backbone is \"{kind}\""
            ),
        }
    }

    pub(in crate::model) fn frozen_only(&self) -> ModelError {
        let kind = self.kind();
        ModelError::Input {
            reason: format!(
                "a backbone of kind \"{kind}\" gives features and cannot be trained; \
                 train what stands upon them"
            ),
        }
    }

    /// Returns the name and shape of every parameter and buffer, sorted by name.
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        match self {
            BackboneConfig::Vit(vit) => vit.parameter_shapes(),
            BackboneConfig::ResNet(network) => network.parameter_shapes(),
            BackboneConfig::DeepResNet(network) => network.parameter_shapes(),
            BackboneConfig::Bert(bert) => bert.parameter_shapes(),
            BackboneConfig::Pixels(_) => Vec::new(),
        }
    }

    /// Returns the number of parameter values, without buffers.
    pub fn parameter_count(&self) -> usize {
        match self {
            BackboneConfig::Vit(vit) => vit.parameter_count(),
            BackboneConfig::ResNet(network) => network.parameter_count(),
            BackboneConfig::DeepResNet(network) => network.parameter_count(),
            BackboneConfig::Bert(bert) => bert.parameter_count(),
            BackboneConfig::Pixels(_) => 0,
        }
    }
}

impl From<VitConfig> for BackboneConfig {
    fn from(vit: VitConfig) -> BackboneConfig {
        BackboneConfig::Vit(vit)
    }
}
