//! Network weights written by other programs: containers, lists of tensors, and the conversion of their names and
//! layouts to those of our networks.
//!
//! A file is opened once ([`WeightsFile`]) and recognized by its first bytes, never by its suffix. Its names belong to
//! a [`Family`] (timm, Hugging Face, torchvision, the JAX release of ViT, ...): a table of rules, one file each. A
//! [`NameMap`] is the result of these rules for one file: a line per tensor of our network, tensors that are skipped
//! because they come after the features (a classifier), and **tensors that are left over**. The latter are never
//! dropped silently: loading fails unless the user named them as ignored.
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
    /// Shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Type of its values, as named in the file.
    pub kind: String,
}

/// Tensors of a file by name.
pub type Listing = BTreeMap<String, Listed>;

/// Tensor of a file, row-major and converted to f32.
#[derive(Clone, Debug, PartialEq)]
pub struct FileTensor {
    /// Shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Values, row-major.
    pub values: Arc<[f32]>,
}

impl FileTensor {
    /// Returns the tensor with row `i` multiplied by entry `i` of a vector.
    fn with_rows_scaled(self, by: &FileTensor) -> FileTensor {
        let width = self.values.len() / by.values.len().max(1);
        let scaled = |(place, value): (usize, &f32)| value * by.values[place / width.max(1)];
        FileTensor {
            shape: self.shape,
            values: self.values.iter().enumerate().map(scaled).collect(),
        }
    }
}

/// Formats a shape for messages, such as `768 x 3 x 16 x 16`.
pub fn shown(shape: &[usize]) -> String {
    match shape {
        [] => "a single number".to_owned(),
        _ => shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x "),
    }
}

/// Returns the first `most` names of a list in backticks, and the number of the others.
pub fn named(names: &[String], most: usize) -> String {
    let mut text = names.iter().take(most).map(|name| short(name)).collect::<Vec<_>>().join(", ");
    if names.len() > most {
        text.push_str(&format!(" and {} more", names.len() - most));
    }
    text
}

/// Returns a name in backticks, shortened as names in foreign files may have any length.
fn short(name: &str) -> String {
    const MOST: usize = 120;
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("`{}...`", &name[..end]),
        None => format!("`{name}`"),
    }
}
