//! Network weights as other programs wrote them: which container a file is, what tensors it lists, in whose names, and
//! how these become the names and layouts of our networks.
//!
//! A file is opened once ([`WeightsFile`]), known by its first bytes and never by its suffix. Its names belong to a
//! [`Family`] (timm, Hugging Face, torchvision, the JAX release of ViT, ...): a table of rules, one file each. A
//! [`NameMap`] is those rules applied to one file: a line per tensor of our network, what is passed over because it is
//! known to stand behind the features (a classifier), and **what is left over**. Nothing that is left over is dropped
//! silently: who loads refuses it, unless the user said by name that it may be ignored.
//!
//! ```
//! use fedcast::weights::{Listed, Listing, NameMap};
//!
//! let listed = |shape: &[usize]| Listed { shape: shape.to_vec(), kind: "F32".to_owned() };
//! let mut listing = Listing::new();
//! listing.insert("vit.embeddings.cls_token".to_owned(), listed(&[1, 1, 12]));
//! listing.insert("vit.embeddings.patch_embeddings.projection.weight".to_owned(), listed(&[12, 3, 4, 4]));
//! for part in ["query", "key", "value"] {
//!     listing.insert(format!("vit.encoder.layer.0.attention.attention.{part}.weight"), listed(&[12, 12]));
//! }
//! listing.insert("classifier.weight".to_owned(), listed(&[1000, 12]));
//! listing.insert("vit.embeddings.register_tokens".to_owned(), listed(&[1, 4, 12]));
//!
//! let map = NameMap::of("model.safetensors", &listing)?;
//! assert_eq!((map.family.name, map.prefix.as_str()), ("Hugging Face ViT", "vit."));
//! let fused = map.lines.iter().find(|line| line.to == "blocks.0.attn.qkv.weight").unwrap();
//! assert_eq!(fused.shape, [36, 12]);
//! assert_eq!(map.passed, ["classifier.weight"]);
//! assert_eq!(map.left, ["vit.embeddings.register_tokens"]);
//! # Ok::<(), fedcast::weights::WeightsError>(())
//! ```

mod advice;
mod error;
mod family;
mod file;
mod format;
mod layout;
mod left_over;
mod looks;
mod map;
mod numpy;
mod part;
mod pattern;
mod resnet_looks;
mod safetensors_file;
mod shards;
mod torch;
mod vit_shape;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use error::WeightsError;
pub use family::{FAMILIES, Family, Network};
pub use file::{Sets, WeightsFile};
pub use format::Format;
pub use layout::Layout;
pub use left_over::Strictness;
pub use looks::{blocks, looks};
pub use map::{Line, NameMap};
pub use pattern::matches;
pub use resnet_looks::{READ, ResNetLooks};
pub use shards::shards_of;
pub use vit_shape::{InferredVit, heads_of_width};

/// Shape and type of a tensor, without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Extents; empty for a scalar.
    pub shape: Vec<usize>,
    /// The type of its values, as the file calls it.
    pub kind: String,
}

/// The tensors of a file by name.
pub type Listing = BTreeMap<String, Listed>;

/// A tensor out of a file: row-major, widened or narrowed to f32.
#[derive(Clone, Debug, PartialEq)]
pub struct FileTensor {
    /// Extents; empty for a scalar.
    pub shape: Vec<usize>,
    /// Row-major.
    pub values: Arc<[f32]>,
}

impl FileTensor {
    /// Returns every row times the number of its place in a vector.
    fn with_rows_scaled(self, by: &FileTensor) -> FileTensor {
        let width = self.values.len() / by.values.len().max(1);
        let scaled = |(place, value): (usize, &f32)| value * by.values[place / width.max(1)];
        FileTensor {
            shape: self.shape,
            values: self.values.iter().enumerate().map(scaled).collect(),
        }
    }
}

/// Extents for people: `768 x 3 x 16 x 16`.
pub fn shown(shape: &[usize]) -> String {
    match shape {
        [] => "a single number".to_owned(),
        _ => shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x "),
    }
}

/// Returns the first names of a list, in backticks, and how many more there are.
pub fn named(names: &[String], most: usize) -> String {
    let mut text = names.iter().take(most).map(|name| short(name)).collect::<Vec<_>>().join(", ");
    if names.len() > most {
        text.push_str(&format!(" and {} more", names.len() - most));
    }
    text
}

/// Returns a name in backticks; those of strangers may have any length.
fn short(name: &str) -> String {
    const MOST: usize = 120;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("`{}...`", &name[..end]),
        None => format!("`{name}`"),
    }
}
