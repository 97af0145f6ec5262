//! Errors of networks and their files, with advice.

use crate::exit::{CommandError, Exit};
use crate::weights::{WeightsError, shown};

/// Error of a network or its file. Damaged weights are reported by tensor name.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// File of weights that cannot be used.
    #[error(transparent)]
    File(#[from] WeightsError),
    /// Parameters that the file format cannot express.
    #[error("the parameters cannot be written as safetensors: {0}")]
    Unwritable(#[from] safetensors::SafeTensorError),
    /// Missing tensor.
    #[error("{file} has no tensor `{name}`{}\n  help: {advice}", expected_shape(expected))]
    Missing {
        /// Path as given, or `parameter set`.
        file: String,
        /// timm's name of the tensor.
        name: String,
        /// Expected shape, if known.
        expected: Option<Vec<usize>>,
        /// Advice.
        advice: &'static str,
    },
    /// Tensor of another shape than the configuration requires.
    #[error(
        "{file}: tensor `{name}` is {}, should be {}\n  help: {advice}",
        shown(found),
        shown(expected)
    )]
    Shape {
        /// Path as given, or `parameter set`.
        file: String,
        /// timm's name of the tensor.
        name: String,
        /// Shape that was found.
        found: Vec<usize>,
        /// Expected shape.
        expected: Vec<usize>,
        /// Advice.
        advice: &'static str,
    },
    /// Dimensions that do not fit together.
    #[error("impossible vision transformer: {reason}")]
    Config {
        /// Mismatch, and what to change.
        reason: String,
    },
    /// Input or adaptation that does not fit the network.
    #[error("{reason}")]
    Input {
        /// Mismatch.
        reason: String,
    },
    /// Error of the tensor library.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

fn expected_shape(expected: &Option<Vec<usize>>) -> String {
    expected.as_ref().map(|s| format!(" (expected: {})", shown(s))).unwrap_or_default()
}

impl CommandError for ModelError {
    fn exit_code(&self) -> Exit {
        Exit::Inputs
    }
}
