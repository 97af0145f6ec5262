//! The keys of backbones that are read from a file and give features only.

use std::path::PathBuf;

use serde::Serialize;

use crate::scenario::reader::{Param, TableReader};

/// A pretrained network that no method may train.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtractorSection {
    /// A safetensors file; absolute in memory. Required.
    pub weights: PathBuf,
}

impl ExtractorSection {
    /// Of a kind, whose name is that of the file in examples.
    pub(super) fn read(table: &mut TableReader<'_>, kind: &str) -> ExtractorSection {
        let weights = "a safetensors file with torchvision's names, relative to this file";
        let weights = Param::required("weights", format!("{kind}.safetensors"), weights);
        ExtractorSection { weights: PathBuf::from(table.get(&weights)) }
    }
}
