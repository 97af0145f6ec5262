//! Keys of backbones that are read from a file and only give features.

use std::path::PathBuf;

use serde::Serialize;

use super::{ignore, part};
use crate::scenario::reader::Keys;

/// Pretrained network that no method may train.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Keys)]
#[keys(given(kind: &str))]
pub struct ExtractorSection {
    /// File with tensor names of torchvision, relative to this file, or `hf:OWNER/REPO`.
    #[key(example = PathBuf::from(format!("{kind}.safetensors")))]
    pub weights: PathBuf,
    /// Patterns of tensors in the file that may be left over. Default: none.
    #[key(read = ignore::read(table, true))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Set of weights to read from a file with several. Default: the one averaged over training.
    #[key(read = part::read(table, true))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}
