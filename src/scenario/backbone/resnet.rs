//! The keys of `kind = "resnet18"`.

use std::path::PathBuf;

use serde::Serialize;

use crate::scenario::reader::{Param, TableReader};

/// ResNet-18 with a 3 x 3 stem and no max-pool, for images of any size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResNetSection {
    /// What it starts from. Default `random`.
    pub weights: StartWeights,
    /// Channels of the first stage; a feature has eight times as many. Default 64.
    pub width: u32,
}

/// Where start values come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartWeights {
    /// Drawn from the run's seed: trained from scratch.
    Random,
    /// A safetensors file with torchvision's names; absolute in memory.
    #[serde(untagged)]
    File(PathBuf),
}

impl ResNetSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> ResNetSection {
        let weights = "\"random\", or a safetensors file relative to this file";
        let weights: String = table.get(&Param::new("weights", "random".to_owned(), weights));
        let weights = match weights.as_str() {
            "random" => StartWeights::Random,
            path => StartWeights::File(PathBuf::from(path)),
        };
        let width = Param::new("width", 64, "channels of the first stage, an eighth of a feature")
            .source("He et al. 2016")
            .at_least(1.0)
            .at_most(1024.0);
        ResNetSection { weights, width: table.get(&width) }
    }
}
