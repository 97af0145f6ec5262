//! Keys of `kind = "resnet18"`.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::{ignore, part};
use crate::scenario::reader::{Choice, Keys, Param, TableReader};

/// ResNet-18 for images of any size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Keys)]
pub struct ResNetSection {
    /// Weights: "random", a file relative to this one, or `hf:OWNER/REPO`.
    #[key(read = StartWeights::read(table, doc))]
    pub weights: StartWeights,
    /// Patterns of tensors in the file that may be left over. Default: none.
    #[key(read = ignore::read(table, weights.is_file()))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Set of weights to read from a file with several. Default: the one averaged over training.
    #[key(read = part::read(table, weights.is_file()))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Channels of the first stage; a feature has 8 times as many numbers.
    #[key(default = 64, at_least = 1.0, at_most = 1024.0, source = "He et al. 2016")]
    pub width: u32,
    /// Layers before the first stage.
    #[key(default = Stem::Small, source = "STSA's code: small for CIFAR-100, imagenet for Tiny-ImageNet")]
    #[serde(skip_serializing_if = "Stem::is_small")]
    pub stem: Stem,
}

/// Layers before the first stage of a residual network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Stem {
    /// 3 x 3 convolution for images of 32 pixels; the first stage gets every pixel.
    #[default]
    Small,
    /// 7 x 7 convolution with stride 2, then a 3 x 3 maximum with stride 2 (He et al. 2016).
    ///
    /// The first stage gets a sixteenth of the pixels.
    #[value(name = "imagenet")]
    #[serde(rename = "imagenet")]
    ImageNet,
}

impl Stem {
    fn is_small(&self) -> bool {
        *self == Stem::Small
    }
}

/// Source of start values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartWeights {
    /// Drawn from the run's seed: trained from scratch.
    Random,
    /// File of weights; absolute in memory.
    #[serde(untagged)]
    File(PathBuf),
}

impl StartWeights {
    /// Reads the key `weights`.
    pub(super) fn read(table: &mut TableReader<'_>, doc: &'static str) -> StartWeights {
        match table.get(&Param::new("weights", "random".to_owned(), doc)).as_str() {
            "random" => StartWeights::Random,
            path => StartWeights::File(PathBuf::from(path)),
        }
    }

    /// Returns true if weights are read from a file.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, StartWeights::File(_))
    }
}
