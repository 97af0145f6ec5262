//! What can be wrong with a file of weights, and what to do about it.

use std::io;

/// A file that cannot be read, is not what it should be, or holds another network. Every message names the file and ends
/// with a way out.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The system cannot read it.
    #[error(
        "cannot read the weights {file}: {source}\n  check the path `backbone.weights` of the scenario"
    )]
    Unreadable {
        /// As given.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// It is no file of weights, or of a kind that is not read.
    #[error("{file} {what}\n  {advice}")]
    Foreign {
        /// As given.
        file: String,
        /// What it is, as a sentence goes on.
        what: String,
        /// What to do.
        advice: String,
    },
    /// It is of a kind that is read, and damaged.
    #[error("{file} is not an intact {format}: {reason}\n  {advice}")]
    Malformed {
        /// As given.
        file: String,
        /// What it should be.
        format: &'static str,
        /// What the reader found.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// A tensor is of a type that is no weight.
    #[error("{file}: tensor `{name}` is {kind}; weights must be f32, f16, bf16 or f64")]
    Type {
        /// As given.
        file: String,
        /// The tensor.
        name: String,
        /// Its type.
        kind: String,
    },
    /// A weight is NaN or infinite.
    #[error(
        "{file}: tensor `{name}` holds {value} at element {index}\n  the file is damaged or its training diverged: use another checkpoint"
    )]
    NotFinite {
        /// As given.
        file: String,
        /// The tensor.
        name: String,
        /// Row-major index of the first such element.
        index: usize,
        value: f32,
    },
    /// A tensor that its names promise is not there.
    #[error("{file} has no tensor `{name}`{meaning}\n  {advice}")]
    Missing {
        /// As given.
        file: String,
        /// In the names of the file.
        name: String,
        /// What it is, as the sentence goes on.
        meaning: String,
        /// What to do.
        advice: String,
    },
    /// Tensors whose extents contradict each other.
    #[error("{file}: {what}\n  {advice}")]
    Shape {
        /// As given.
        file: String,
        /// What contradicts what.
        what: String,
        /// What to do.
        advice: String,
    },
    /// It holds another network than the one that is asked for.
    #[error("{file} holds another network than [backbone] states: {what}\n  {advice}")]
    Other {
        /// As given.
        file: String,
        /// What differs, and what the file looks like.
        what: String,
        /// What to do.
        advice: String,
    },
    /// Tensors that the network has no place for.
    #[error("{file} has {what}\n  {advice}")]
    LeftOver {
        /// As given.
        file: String,
        /// How many, their names, and what they are where that is known.
        what: String,
        /// What to do.
        advice: String,
    },
}

/// Said of files that were cut or changed on their way.
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
