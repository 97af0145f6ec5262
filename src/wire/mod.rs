//! Messages as bytes: what crosses the network, in our own versioned format, counted exactly.
//!
//! A method packs a [`Body`]: meta bytes and sections of named tensors, each section of one [`Kind`]. A
//! [`BodySketch`] is the same without values.

mod body;
mod error;
mod kind;
mod meta;
mod sketch;
mod tensor;

pub use body::{Body, Section};
pub use error::WireError;
pub use kind::Kind;
pub use meta::{MetaReader, MetaWriter};
pub use sketch::{BodySketch, SectionSketch, TensorSketch};
pub use tensor::{Dtype, NamedTensor, Values};
