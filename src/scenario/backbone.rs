//! `[backbone]`: the pretrained vision transformer.

use std::path::PathBuf;

use serde::Serialize;

/// The pretrained feature extractor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackboneSection {
    /// Where its weights are. Default `embedded`.
    pub weights: Weights,
    /// Its shape. Required with a file, so that a run can be planned without it; with
    /// `embedded` it is known and must be left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// Pixels of both sides of its input where they differ from the architecture's; position
    /// embeddings are interpolated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<u32>,
    /// Attention heads where they differ from the architecture's (not to be seen in weights).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
}

/// Where weights come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// The small transformer inside the program.
    Embedded,
    /// A safetensors file with timm's names; absolute in memory.
    #[serde(untagged)]
    File(PathBuf),
}

/// A preset's name or a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Architecture {
    /// ViT-Ti/16: 192 wide, 12 deep, 3 heads.
    #[serde(rename = "vit-tiny-patch16-224")]
    VitTiny,
    /// ViT-S/16: 384 wide, 12 deep, 6 heads.
    #[serde(rename = "vit-small-patch16-224")]
    VitSmall,
    /// ViT-B/16: 768 wide, 12 deep, 12 heads.
    #[serde(rename = "vit-base-patch16-224")]
    VitBase,
    /// Any other: `{ image, patch, channels, dim, depth, heads, mlp }`.
    #[serde(untagged)]
    Table(VitShape),
}

/// The shape of a vision transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct VitShape {
    /// Pixels of both sides of the input it was trained on.
    pub image: u32,
    /// Pixels of both sides of a patch.
    pub patch: u32,
    /// Colour channels. Default 3.
    pub channels: u32,
    /// Width.
    pub dim: u32,
    /// Blocks.
    pub depth: u32,
    /// Attention heads; they divide the width.
    pub heads: u32,
    /// Width of the hidden layer of a block's MLP. Default 4 x `dim`.
    pub mlp: u32,
}

impl Architecture {
    /// The shape in numbers.
    pub fn shape(&self) -> VitShape {
        let vit = |dim, heads| VitShape {
            image: 224,
            patch: 16,
            channels: 3,
            dim,
            depth: 12,
            heads,
            mlp: 4 * dim,
        };
        match self {
            Architecture::VitTiny => vit(192, 3),
            Architecture::VitSmall => vit(384, 6),
            Architecture::VitBase => vit(768, 12),
            Architecture::Table(shape) => *shape,
        }
    }
}
