//! What can go wrong with a network or its file, and what to do about it.

use std::io;

/// Errors of the model floor. A wrong or damaged weights file is told by tensor name.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be read.
    #[error(
        "cannot read the weights {file}: {source}\n  check the path `backbone.weights` of the scenario"
    )]
    Unreadable {
        /// Path as given.
        file: String,
        /// What the system says.
        source: io::Error,
    },
    /// The file is no safetensors file, or a truncated one.
    #[error(
        "{file} is not an intact safetensors file: {reason}\n  convert the checkpoint with safetensors.torch.save_file, or fetch it again"
    )]
    Malformed {
        /// Path as given.
        file: String,
        /// What the reader found.
        reason: String,
    },
    /// A tensor is not there.
    #[error("{file} has no tensor `{name}`{}\n  {advice}", expected_shape(expected))]
    Missing {
        /// Path as given, or `parameter set`.
        file: String,
        /// timm's name of the tensor.
        name: String,
        /// The shape it should have, where known.
        expected: Option<Vec<usize>>,
        /// What to do.
        advice: &'static str,
    },
    /// A tensor has another shape than the configuration asks for.
    #[error("{file}: tensor `{name}` has shape {found:?}, should have {expected:?}\n  {advice}")]
    Shape {
        /// Path as given, or `parameter set`.
        file: String,
        /// timm's name of the tensor.
        name: String,
        /// The shape found.
        found: Vec<usize>,
        /// The shape asked for.
        expected: Vec<usize>,
        /// What to do.
        advice: &'static str,
    },
    /// A weight is NaN or infinite.
    #[error(
        "{file}: tensor `{name}` holds {value} at element {index}\n  the file is damaged or its training diverged: use another checkpoint"
    )]
    NotFinite {
        /// Path as given.
        file: String,
        /// Name of the tensor.
        name: String,
        /// Row-major index of the first such element.
        index: usize,
        value: f32,
    },
    /// A tensor is of a type that is no weight.
    #[error("{file}: tensor `{name}` is {dtype}; weights must be f32, f16, bf16 or f64")]
    Type {
        /// Path as given.
        file: String,
        /// Name of the tensor.
        name: String,
        /// Its type.
        dtype: String,
    },
    /// Dimensions that do not fit together.
    #[error("impossible vision transformer: {reason}")]
    Config {
        /// What does not fit, and what to change.
        reason: String,
    },
    /// The input or the adaptation does not fit the network.
    #[error("{reason}")]
    Input {
        /// What does not fit.
        reason: String,
    },
    /// The tensor library refused.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

fn expected_shape(expected: &Option<Vec<usize>>) -> String {
    expected.as_ref().map(|s| format!(" (expected shape {s:?})")).unwrap_or_default()
}
