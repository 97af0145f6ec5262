//! Errors of putting a run together.

use thiserror::Error;

use crate::data::DataError;
use crate::exit::{CommandError, Exit};
use crate::experiment::ranks::RanksError;
use crate::fetch::FetchError;
use crate::model::{DeviceError, ModelError};
use crate::scenario::ScenarioError;
use crate::wire::WireError;

/// Reason why a run cannot be assembled.
#[derive(Debug, Error)]
pub enum AssembleError {
    /// The scenario is invalid.
    #[error("{0}")]
    Scenario(#[from] ScenarioError),
    /// Keys that contradict each other, found only when the run is assembled.
    #[error("{message}\n  help: {help}")]
    Unsupported {
        /// Conflict.
        message: String,
        /// Advice.
        help: String,
    },
    /// A codec that cannot carry what the scenario says.
    #[error("[wire]: {0}")]
    Wire(#[from] WireError),
    /// Data is missing, damaged or cannot be divided as asked.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The processes of a run cannot compute together.
    #[error(transparent)]
    Ranks(Box<RanksError>),
    /// A device that is named cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Weights are missing, damaged or of another shape.
    #[error(transparent)]
    Weights(#[from] ModelError),
    /// Weights that have a name and were not fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

impl From<RanksError> for AssembleError {
    fn from(error: RanksError) -> AssembleError {
        AssembleError::Ranks(Box::new(error))
    }
}

impl AssembleError {
    pub(in crate::experiment) fn unsupported(
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> AssembleError {
        AssembleError::Unsupported { message: message.into(), help: help.into() }
    }
}

impl CommandError for AssembleError {
    fn exit_code(&self) -> Exit {
        match self {
            AssembleError::Unsupported { .. } => Exit::Scenario,
            AssembleError::Scenario(error) => error.exit_code(),
            AssembleError::Wire(error) => error.exit_code(),
            AssembleError::Data(error) => error.exit_code(),
            AssembleError::Ranks(error) => error.exit_code(),
            AssembleError::Device(error) => error.exit_code(),
            // A name that the scenario gives, not the command line.
            AssembleError::Weights(_) | AssembleError::Fetch(_) => Exit::Inputs,
        }
    }
}
