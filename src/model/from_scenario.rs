//! Backbone dimensions from the table `[backbone]`.

use super::deep_resnet::Depth;
use super::{
    BackboneConfig, BertConfig, DeepResNetConfig, EMBEDDED_CONFIG, PixelShape, ResNetConfig,
    VitConfig, ops,
};
use crate::scenario::{Activation, BackboneSection, Scenario, VitSection, Weights};

/// Returns the backbone's dimensions as the scenario states them, before any weight or image is read.
pub fn backbone_config(scenario: &Scenario) -> BackboneConfig {
    let (channels, image) = (scenario.data.channels() as usize, scenario.data.output() as usize);
    let deep = |depth| BackboneConfig::DeepResNet(DeepResNetConfig { depth, image });
    match &scenario.backbone {
        BackboneSection::Vit(section) => BackboneConfig::Vit(vit_config(section)),
        BackboneSection::ResNet18(section) => BackboneConfig::ResNet(ResNetConfig {
            image,
            channels,
            width: section.width as usize,
            stem: section.stem,
            ..ResNetConfig::default()
        }),
        BackboneSection::ResNet50(_) => deep(Depth::Fifty),
        BackboneSection::ResNet152(_) => deep(Depth::HundredFiftyTwo),
        BackboneSection::Bert(section) => BackboneConfig::Bert(BertConfig {
            vocabulary: section.architecture.vocabulary as usize,
            hidden: section.architecture.hidden as usize,
            layers: section.architecture.layers as usize,
            heads: section.architecture.heads as usize,
            intermediate: section.architecture.intermediate as usize,
            positions: section.architecture.positions as usize,
            length: scenario.data.tokens() as usize,
            pooling: section.pooling,
        }),
        BackboneSection::Pixels => BackboneConfig::Pixels(PixelShape { channels, image }),
    }
}

fn activation(activation: Activation) -> ops::PerceptronActivation {
    match activation {
        Activation::Gelu => ops::PerceptronActivation::Gelu,
        Activation::QuickGelu => ops::PerceptronActivation::QuickGelu,
    }
}

fn vit_config(section: &VitSection) -> VitConfig {
    let mut config = match (&section.weights, &section.architecture) {
        (Weights::File(_), Some(architecture)) => {
            let shape = architecture.shape();
            VitConfig {
                image: shape.image as usize,
                patch: shape.patch as usize,
                channels: shape.channels as usize,
                dim: shape.dim as usize,
                depth: shape.depth as usize,
                heads: shape.heads as usize,
                mlp: shape.mlp as usize,
                activation: activation(section.activation()),
                ..VitConfig::default()
            }
        }
        _ => EMBEDDED_CONFIG,
    };
    if let Some(heads) = section.heads {
        config.heads = heads as usize;
    }
    match section.resolution {
        Some(image) => config.at_resolution(image as usize),
        None => config,
    }
}
