//! `[backbone] kind = "vit"`: the pretrained vision transformer.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::{Activation, ignore, part};
use crate::scenario::reader::{Choice, Keys, Param, TableReader};

/// Pixels of both sides of the input of the embedded transformer.
pub const EMBEDDED_IMAGE: u32 = 8;

/// The pretrained transformer.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(check = section.check(table))]
pub struct VitSection {
    /// "embedded", a file relative to this one, or `hf:OWNER/REPO`.
    #[key(first, read = Weights::read(table, doc))]
    pub weights: Weights,
    /// Patterns of tensors in the file that may be left over. Default: none.
    #[key(read = ignore::read(table, weights != Weights::Embedded))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Which of several sets of weights in the file is read. Default: the one that was averaged over training.
    #[key(read = part::read(table, weights != Weights::Embedded))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Preset or { image, patch, dim, depth, heads }; else the file's own.
    ///
    /// Stated, a run can be planned without the file; with `embedded` it is known and must be left out.
    #[key(first, read = weights.read_architecture(table, doc))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// Pixels of both sides of the input, if not the usual.
    ///
    /// Where they differ from the architecture's, position embeddings are interpolated.
    #[key(at_least = 1.0, at_most = 4096.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<u32>,
    /// Attention heads, if not the usual.
    ///
    /// Not to be seen in weights.
    #[key(at_least = 1.0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
    /// Activation of its perceptrons, as the model card says.
    ///
    /// Not to be seen in weights. Default `gelu`; with weights under a name that is known for it, such as `openai/clip`,
    /// `quick-gelu`.
    #[key(read = weights.read_activation(table, doc))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
}

/// Where weights come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weights {
    /// The small transformer inside the program.
    Embedded,
    /// A file of weights; absolute in memory.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Keys)]
pub struct VitShape {
    /// Pixels of both sides of the input it was trained on.
    #[key(example = 224, at_least = 1.0, at_most = 65_536.0)]
    pub image: u32,
    /// Pixels of both sides of a patch.
    #[key(example = 16, at_least = 1.0, at_most = 65_536.0)]
    pub patch: u32,
    /// Color channels.
    #[key(default = 3, at_least = 1.0)]
    pub channels: u32,
    /// Width.
    #[key(first, example = 192, at_least = 1.0, at_most = 65_536.0)]
    pub dim: u32,
    /// Blocks.
    #[key(example = 12, at_least = 1.0, at_most = 65_536.0)]
    pub depth: u32,
    /// Attention heads.
    ///
    /// They divide the width.
    #[key(example = 3, at_least = 1.0, at_most = 65_536.0)]
    pub heads: u32,
    /// Hidden width of a block's perceptron, 4 x dim.
    #[key(default = 4 * dim, at_least = 1.0)]
    pub mlp: u32,
}

impl Architecture {
    /// The preset of this shape, or the shape itself.
    pub(super) fn of(shape: VitShape) -> Architecture {
        let presets = [Architecture::VitTiny, Architecture::VitSmall, Architecture::VitBase];
        let preset = presets.into_iter().find(|preset| preset.shape() == shape);
        preset.unwrap_or(Architecture::Table(shape))
    }

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

/// [`Architecture`] without its table.
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum Preset {
    /// 192 wide, 12 deep, 3 heads.
    #[value(name = "vit-tiny-patch16-224")]
    Tiny,
    /// 384 wide, 12 deep, 6 heads.
    #[value(name = "vit-small-patch16-224")]
    Small,
    /// 768 wide, 12 deep, 12 heads.
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
            // Not asked for by `given`: an architecture of one's own is a key beside a file, and is looked for there.
            if table.written().iter().any(|key| key == "architecture") {
                refuse_embedded(table, "architecture");
            }
            // Known to the description and to "did you mean" all the same.
            table.optional(&Param::<Preset>::unset("architecture", doc));
            return None;
        }
        if table.given_table("architecture") {
            return Some(Architecture::Table(table.table("architecture", VitShape::read)));
        }
        table.optional(&Param::unset("architecture", doc)).map(|preset| match preset {
            Preset::Tiny => Architecture::VitTiny,
            Preset::Small => Architecture::VitSmall,
            Preset::Base => Architecture::VitBase,
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
        "the embedded backbone has an architecture of its own",
        "not for embedded weights",
        "remove this line, or set `backbone.weights` to a file",
    );
}

impl VitSection {
    /// Its keys, which no other kind has.
    pub(super) const KEYS: [&'static str; 5] =
        ["weights", "architecture", "resolution", "heads", "activation"];

    /// Patches tile the input, heads divide the width.
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

    /// What does not fit the shape: key, message and way out.
    pub(super) fn misfits(&self) -> Vec<(&'static str, String, String)> {
        let mut misfits = Vec::new();
        let Some(VitShape { image, patch, dim, heads, .. }) = self.shape() else { return misfits };
        if !image.is_multiple_of(patch) {
            let message = format!("patches of {patch} pixels do not tile an input of {image}");
            misfits.push(("resolution", message, format!("use a multiple of {patch}")));
        }
        if !dim.is_multiple_of(heads) {
            let help = "the model card or its code says how many there are".to_owned();
            misfits.push(("heads", format!("{heads} heads do not divide a width of {dim}"), help));
        }
        misfits
    }

    /// Pixels of both sides of the images it takes.
    pub fn input(&self) -> u32 {
        let native = self.shape().map_or(EMBEDDED_IMAGE, |shape| shape.image);
        self.resolution.unwrap_or(native)
    }

    /// Activation of its perceptrons.
    pub fn activation(&self) -> Activation {
        self.activation.unwrap_or_default()
    }

    /// The shape with `resolution` and `heads` put in; `None` for the embedded backbone, and as long as a file was not
    /// asked for its own.
    pub fn shape(&self) -> Option<VitShape> {
        let shape = self.architecture?.shape();
        Some(VitShape {
            image: self.resolution.unwrap_or(shape.image),
            heads: self.heads.unwrap_or(shape.heads),
            ..shape
        })
    }
}
