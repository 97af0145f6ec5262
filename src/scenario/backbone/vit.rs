//! `[backbone] kind = "vit"`: pretrained vision transformer.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::{Activation, ignore, part};
use crate::scenario::reader::{Choice, Keys, Param, TableReader};

/// Pixels per side of the input of the embedded transformer.
pub const EMBEDDED_IMAGE: u32 = 8;

/// Pretrained vision transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(check = section.check(table))]
pub struct VitSection {
    /// Weights: "embedded", a file relative to this one, or `hf:OWNER/REPO`.
    #[key(first, read = Weights::read(table, doc))]
    pub weights: Weights,
    /// Patterns of tensors in the file that may be left over. Default: none.
    #[key(read = ignore::read(table, weights != Weights::Embedded))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Set of weights to read from a file with several. Default: the one averaged over training.
    #[key(read = part::read(table, weights != Weights::Embedded))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Architecture: a preset or { image, patch, dim, depth, heads }; default: that of the file.
    ///
    /// If stated, a run can be planned without the file. With `embedded` it is known and must be left out.
    #[key(first, read = weights.read_architecture(table, doc))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// Pixels per side of the input; default: those of the architecture.
    ///
    /// If they differ from the architecture's, position embeddings are interpolated.
    #[key(at_least = 1.0, at_most = 4096.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<u32>,
    /// Number of attention heads; default: that of the architecture.
    ///
    /// It cannot be inferred from weights.
    #[key(at_least = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
    /// Activation of the perceptrons, as on the model card.
    ///
    /// It cannot be inferred from weights. Default `gelu`; `quick-gelu` for weights with a name that is known for it,
    /// such as `openai/clip`.
    #[key(read = weights.read_activation(table, doc))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
}

/// Source of weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// Small transformer embedded in the program.
    Embedded,
    /// File of weights; absolute in memory.
    #[serde(untagged)]
    File(PathBuf),
}

/// Preset or table of an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Architecture {
    /// ViT-Ti/16: width 192, 12 blocks, 3 heads.
    #[serde(rename = "vit-tiny-patch16-224")]
    VitTiny,
    /// ViT-S/16: width 384, 12 blocks, 6 heads.
    #[serde(rename = "vit-small-patch16-224")]
    VitSmall,
    /// ViT-B/16: width 768, 12 blocks, 12 heads.
    #[serde(rename = "vit-base-patch16-224")]
    VitBase,
    /// Any other shape: `{ image, patch, channels, dim, depth, heads, mlp }`.
    #[serde(untagged)]
    Table(VitShape),
}

/// Shape of a vision transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Keys)]
pub struct VitShape {
    /// Pixels per side of the input in pretraining.
    #[key(example = 224, at_least = 1.0, at_most = 65_536.0)]
    pub image: u32,
    /// Pixels per side of a patch.
    #[key(example = 16, at_least = 1.0, at_most = 65_536.0)]
    pub patch: u32,
    /// Number of color channels.
    #[key(default = 3, at_least = 1.0)]
    pub channels: u32,
    /// Width of the token states.
    #[key(first, example = 192, at_least = 1.0, at_most = 65_536.0)]
    pub dim: u32,
    /// Number of blocks.
    #[key(example = 12, at_least = 1.0, at_most = 65_536.0)]
    pub depth: u32,
    /// Number of attention heads; must divide `dim`.
    #[key(example = 3, at_least = 1.0, at_most = 65_536.0)]
    pub heads: u32,
    /// Hidden width of a block's perceptron; default 4 x dim.
    #[key(default = 4 * dim, at_least = 1.0)]
    pub mlp: u32,
}

impl Architecture {
    /// Returns the preset of this shape, or the shape itself.
    pub(super) fn of(shape: VitShape) -> Architecture {
        let presets = [Architecture::VitTiny, Architecture::VitSmall, Architecture::VitBase];
        let preset = presets.into_iter().find(|preset| preset.shape() == shape);
        preset.unwrap_or(Architecture::Table(shape))
    }

    /// Returns the shape in numbers.
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

/// Presets of [`Architecture`].
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum VitPreset {
    /// Width 192, 12 blocks, 3 heads.
    #[value(name = "vit-tiny-patch16-224")]
    Tiny,
    /// Width 384, 12 blocks, 6 heads.
    #[value(name = "vit-small-patch16-224")]
    Small,
    /// Width 768, 12 blocks, 12 heads.
    #[value(name = "vit-base-patch16-224")]
    Base,
}

impl Weights {
    fn read(table: &mut TableReader<'_>, doc: &'static str) -> Weights {
        match table.get(&Param::new("weights", "embedded".to_owned(), doc)).as_str() {
            "embedded" => Weights::Embedded,
            path => Weights::File(PathBuf::from(path)),
        }
    }

    fn read_architecture(
        &self,
        table: &mut TableReader<'_>,
        doc: &'static str,
    ) -> Option<Architecture> {
        if *self == Weights::Embedded {
            // Not `given`, after which the search for keys would try this one with embedded weights, too.
            if table.written().iter().any(|key| key == "architecture") {
                refuse_embedded(table, "architecture");
            }
            // The description of keys and "did you mean" know the key in any case.
            table.optional(&Param::<VitPreset>::unset("architecture", doc));
            return None;
        }
        if table.given_table("architecture") {
            return Some(Architecture::Table(table.table("architecture", VitShape::read)));
        }
        table.optional(&Param::unset("architecture", doc)).map(|preset| match preset {
            VitPreset::Tiny => Architecture::VitTiny,
            VitPreset::Small => Architecture::VitSmall,
            VitPreset::Base => Architecture::VitBase,
        })
    }

    fn read_activation(
        &self,
        table: &mut TableReader<'_>,
        doc: &'static str,
    ) -> Option<Activation> {
        let usual = match self {
            Weights::Embedded => Activation::Gelu,
            Weights::File(path) => Activation::of_weights(&path.to_string_lossy()),
        };
        let activation = table.get(&Param::new("activation", usual, doc));
        (usual != Activation::Gelu || activation != usual).then_some(activation)
    }
}

fn refuse_embedded(table: &mut TableReader<'_>, key: &str) {
    table.reject(
        key,
        "the architecture of the embedded backbone is fixed",
        "not for embedded weights",
        "remove this line, or set `backbone.weights` to a file",
    );
}

impl VitSection {
    /// Keys that no other kind of backbone has.
    pub(super) const KEYS: [&'static str; 5] =
        ["weights", "architecture", "resolution", "heads", "activation"];

    /// Reports a patch size that does not divide the image, and heads that do not divide the width.
    fn check(&self, table: &mut TableReader<'_>) {
        for key in ["resolution", "heads", "activation"] {
            if self.weights == Weights::Embedded && table.given(key) {
                refuse_embedded(table, key);
            }
        }
        for (key, message, help) in self.misfits() {
            table.reject(key, &message, "does not fit", &help);
        }
    }

    /// Returns the keys that do not fit the shape, each with message and help.
    pub(super) fn misfits(&self) -> Vec<(&'static str, String, String)> {
        let mut misfits = Vec::new();
        let Some(VitShape { image, patch, dim, heads, .. }) = self.shape() else { return misfits };
        if !image.is_multiple_of(patch) {
            let message = format!("patches of {patch} pixels do not tile an input of {image}");
            misfits.push(("resolution", message, format!("use a multiple of {patch}")));
        }
        if !dim.is_multiple_of(heads) {
            let help = "take the number of heads from the model card or its code".to_owned();
            misfits.push((
                "heads",
                format!("heads = {heads} does not divide the width {dim}"),
                help,
            ));
        }
        misfits
    }

    /// Returns the pixels per side of the images that it takes.
    pub fn input(&self) -> u32 {
        let native = self.shape().map_or(EMBEDDED_IMAGE, |shape| shape.image);
        self.resolution.unwrap_or(native)
    }

    /// Returns the activation of its perceptrons.
    pub fn activation(&self) -> Activation {
        self.activation.unwrap_or_default()
    }

    /// Returns the shape with `resolution` and `heads` applied. `None` for the embedded backbone, and until the file
    /// was asked for its shape.
    pub fn shape(&self) -> Option<VitShape> {
        let shape = self.architecture?.shape();
        Some(VitShape {
            image: self.resolution.unwrap_or(shape.image),
            heads: self.heads.unwrap_or(shape.heads),
            ..shape
        })
    }
}
