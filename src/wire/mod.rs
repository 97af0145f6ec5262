//! Encoding of messages as bytes, in a versioned format, counted exactly.
//!
//! A method packs a [`Body`]: meta bytes and sections of named tensors, each section of one [`Kind`]. A [`BodyShape`]
//! is a body without values. Either has a [`FrameSize`]; [`encode`] and [`decode`] turn a body into the bytes of a
//! frame and back; [`transmit`] gives the receiver's body without making bytes.
//!
//! ```text
//! frame   = header | meta | table | payload      header: 40 bytes
//! control = header + meta + table                frame = control + payload
//! raw     = payload before the codec             ratio = raw / payload
//! ```

mod body;
mod checksum;
pub mod codec;
mod decode;
mod encode;
mod error;
mod header;
mod kind;
mod meta;
mod saved;
mod shape;
mod size;
mod tensor;
#[cfg(test)]
mod tests;
mod transmit;
mod values;

pub use body::{Body, Inspection, Section};
pub use checksum::checksum;
pub use codec::{Codec, CodecPlan};
pub use decode::decode;
pub use encode::encode;
pub use error::WireError;
pub(crate) use fedcast_derive::Saved;
pub use header::{FrameHeader, HEADER_LENGTH};
pub use kind::Kind;
pub use meta::{MetaReader, MetaWriter};
pub use saved::{Loading, Saved, SavedField, Saving};
pub use shape::{BodyShape, SectionShape, TensorShape};
pub use size::{FrameSize, KindBytes};
pub use tensor::NamedTensor;
pub use transmit::{transmit, verify};
pub use values::{Dtype, TensorValues};
