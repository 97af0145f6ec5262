//! Errors of networks and their files, with advice.

use crate::exit::{CommandError, Exit};
use crate::weights::{WeightsError, shown};

/// Error of a network or its file. A wrong or damaged weights file is reported by tensor name.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file of weights that cannot be used.
    #[error(transparent)]
    File(#[from] WeightsError),
    /// Parameters that the format of files has no way to say.
    #[error("the parameters cannot be written as safetensors: {0}")]
    Unwritable(#[from] safetensors::SafeTensorError),
    /// A tensor is not there.
    #[error("{file} has no tensor `{name}`{}\n  help: {advice}", expected_shape(expected))]
    Missing {
        /// Path as given, or `parameter set`.
        file: String,
        /// timm's name of the tensor.
        name: String,
        /// The shape it should have, where known.
        expected: Option<Vec<usize>>,
        /// Advice.
        advice: &'static str,
    },
    /// A tensor has another shape than the configuration asks for.
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
        /// The shape found.
        found: Vec<usize>,
        /// The shape asked for.
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
    /// The input or the adaptation does not fit the network.
    #[error("{reason}")]
    Input {
        /// Mismatch.
        reason: String,
    },
    /// The tensor library refused.
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
