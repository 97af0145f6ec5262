//! The keys of backbones that are read from a file and give features only.

use std::path::PathBuf;

use serde::Serialize;

use super::{ignore, part};
use crate::scenario::reader::{Param, TableReader};

/// A pretrained network that no method may train.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtractorSection {
    /// A file of weights; absolute in memory. Required.
    pub weights: PathBuf,
    /// Patterns of tensors in the file that may be left over. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Which of several sets of weights in the file is read. Default: the one that was averaged over training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

impl ExtractorSection {
    /// Of a kind, whose name is that of the file in examples.
    pub(super) fn read(table: &mut TableReader<'_>, kind: &str) -> ExtractorSection {
        let weights = "a file in torchvision's names, relative to this file, or `hf:OWNER/REPO`";
        let weights =
            Param::required("weights", PathBuf::from(format!("{kind}.safetensors")), weights);
        ExtractorSection {
            weights: table.get(&weights),
            ignore: ignore::read(table, true),
            part: part::read(table, true),
        }
    }
}
