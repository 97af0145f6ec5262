//! Errors of messages.

use crate::exit::{CommandError, Exit};

/// An error of the wire layer. Decoding errors mean damaged or foreign bytes; the others mean a method that
/// packs and unpacks its messages differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The values of a tensor do not fill its shape.
    #[error(
        "tensor `{name}` of shape {shape:?} and type {dtype} needs {wanted} bytes of values, not {got}"
    )]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Shape of the tensor.
        shape: Vec<usize>,
        /// Element type of the tensor.
        dtype: &'static str,
        /// Number of bytes that the shape needs.
        wanted: u64,
        /// Number of bytes given.
        got: u64,
    },
    /// A section or tensor that the receiver expects is not in the message.
    #[error("the message has no tensor `{name}` of kind {kind}; it holds {present}")]
    Missing {
        /// Kind of the section that was searched.
        kind: &'static str,
        /// Name of the requested tensor.
        name: String,
        /// Names that the message holds instead.
        present: String,
    },
    /// A tensor has another element type than the receiver expects.
    #[error("tensor `{name}` holds {got}, not {wanted}")]
    Type {
        /// Name of the tensor.
        name: String,
        /// Requested type.
        wanted: &'static str,
        /// Element type of the tensor.
        got: &'static str,
    },
    /// A tensor has another shape than the receiver expects.
    #[error("tensor `{name}` has shape {got:?}, not {wanted:?}")]
    OtherShape {
        /// Name of the tensor.
        name: String,
        /// Requested shape.
        wanted: Vec<usize>,
        /// Shape of the tensor.
        got: Vec<usize>,
    },
    /// The bytes end inside the named part.
    #[error("the frame ends inside its {0}")]
    Truncated(&'static str),
    /// The bytes are no frame of this version, or contradict themselves.
    #[error("not a readable frame: {0}")]
    Malformed(String),
    /// A lossy codec met a value it cannot represent.
    #[error(
        "tensor `{name}`: codec {codec} cannot carry the value {value} at index {index}; \
         choose codec f32 or bf16 for its kind, or look for a diverging client"
    )]
    NotEncodable {
        /// Name of the tensor.
        name: String,
        /// Name of the codec.
        codec: &'static str,
        /// The value as text.
        value: String,
        /// Index of the value in row-major order.
        index: usize,
    },
    /// A message is larger than the 48-bit length field of a frame allows.
    #[error("a frame body of {0} bytes exceeds what a frame can hold (2^48 bytes)")]
    TooLarge(u64),
    /// The scenario names a kind that does not exist; the second text lists the existing ones.
    #[error("`{0}` is no kind of content; kinds are {1}")]
    UnknownKind(String, String),
    /// A part of a message differs after encoding and decoding (`wire = "verify"`).
    #[error("verify: {0} changed on the wire although its codec is lossless")]
    Changed(String),
}

impl CommandError for WireError {
    fn exit_code(&self) -> Exit {
        Exit::Scenario
    }
}
