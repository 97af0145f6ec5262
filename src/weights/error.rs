//! Errors of weights files, with advice.

use std::io;

/// Error of a weights file that cannot be read, is of another kind, or holds another network. Every message names the
/// file and ends with advice.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// File that the system cannot read.
    #[error(
        "cannot read the weights {file}: {source}\n  help: check the path `backbone.weights` of the scenario"
    )]
    Unreadable {
        /// File as given.
        file: String,
        /// Error of the system.
        source: io::Error,
    },
    /// File of no known kind, or of a kind that is not supported.
    #[error("{file} {what}\n  help: {advice}")]
    Foreign {
        /// File as given.
        file: String,
        /// Kind of the file, as the end of a sentence.
        what: String,
        /// Advice.
        advice: String,
    },
    /// Damaged file of a supported kind.
    #[error("{file} is not an intact {format}: {reason}\n  help: {advice}")]
    Malformed {
        /// File as given.
        file: String,
        /// Format that it should have.
        format: &'static str,
        /// Error of the reader.
        reason: String,
        /// Advice.
        advice: String,
    },
    /// Tensor of a type that weights do not have.
    #[error("{file}: tensor `{name}` is {kind}; weights must be f32, f16, bf16 or f64")]
    Type {
        /// File as given.
        file: String,
        /// Name of the tensor.
        name: String,
        /// Type of the tensor.
        kind: String,
    },
    /// Weight that is NaN or infinite.
    #[error(
        "{file}: tensor `{name}` holds {value} at element {index}: the file is damaged or its training diverged\n  help: use another checkpoint"
    )]
    NotFinite {
        /// File as given.
        file: String,
        /// Name of the tensor.
        name: String,
        /// Row-major index of the first such element.
        index: usize,
        /// Value of that element: NaN or infinite.
        value: f32,
    },
    /// Missing tensor that other names in the file imply.
    #[error("{file} has no tensor `{name}`{meaning}\n  help: {advice}")]
    Missing {
        /// File as given.
        file: String,
        /// Tensor in the names of the file.
        name: String,
        /// Meaning of the tensor, as the end of a sentence.
        meaning: String,
        /// Advice.
        advice: String,
    },
    /// Tensors whose shapes contradict each other.
    #[error("{file}: {what}\n  help: {advice}")]
    Shape {
        /// File as given.
        file: String,
        /// Description of the contradiction.
        what: String,
        /// Advice.
        advice: String,
    },
    /// File with another network than the requested one.
    #[error("{file} holds another network than [backbone] states: {what}\n  help: {advice}")]
    Other {
        /// File as given.
        file: String,
        /// Differences, and the network that the file resembles.
        what: String,
        /// Advice.
        advice: String,
    },
    /// Tensors that the network has no use for.
    #[error("{file} has {what}\n  help: {advice}")]
    LeftOver {
        /// File as given.
        file: String,
        /// Number and names of the tensors, and their meaning if it is known.
        what: String,
        /// Advice.
        advice: String,
    },
}

/// Advice for files that were truncated or changed in transfer.
pub(super) const AGAIN: &str = "fetch or copy it again";

impl WeightsError {
    pub(super) fn malformed(
        file: &str,
        format: &'static str,
        reason: impl Into<String>,
    ) -> WeightsError {
        let (file, reason) = (file.to_owned(), reason.into());
        WeightsError::Malformed { file, format, reason, advice: AGAIN.to_owned() }
    }
}
