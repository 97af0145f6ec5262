//! Errors of putting a run together.

use thiserror::Error;

use crate::data::DataError;
use crate::exit::{CommandError, Exit};
use crate::experiment::ranks::RanksError;
use crate::fetch::FetchError;
use crate::model::{DeviceError, ModelError};
use crate::scenario::{Loaded, RequirementError, ScenarioError};
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
        /// Key of the scenario that it is about, if it is about one.
        key: Option<String>,
    },
    /// A requirement of the method that shows only once the number of classes is known.
    #[error("{}\n  help: {}", .0.message, .0.help)]
    Requirement(RequirementError),
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
        AssembleError::Unsupported { message: message.into(), help: help.into(), key: None }
    }

    pub(in crate::experiment) fn unsupported_at(
        key: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> AssembleError {
        let key = Some(key.into());
        AssembleError::Unsupported { message: message.into(), help: help.into(), key }
    }

    /// Returns the error at the key of the scenario that it is about.
    ///
    /// # Errors
    /// Returns the error unchanged if it is about no key.
    pub fn place(self, loaded: &Loaded) -> Result<ScenarioError, AssembleError> {
        let placed = match &self {
            AssembleError::Requirement(RequirementError { key, message, label, help }) => {
                Some(loaded.error_at(key, message, label, help))
            }
            AssembleError::Unsupported { message, help, key: Some(key) } => {
                Some(loaded.error_at(key, message, "not with these data", help))
            }
            AssembleError::Data(error) => error.at_key().map(|(key, message, help)| {
                loaded.error_at(key, &message, "not with these data", help)
            }),
            _ => None,
        };
        placed.ok_or(self)
    }
}

impl CommandError for AssembleError {
    fn exit_code(&self) -> Exit {
        match self {
            AssembleError::Unsupported { .. } | AssembleError::Requirement(_) => Exit::Scenario,
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
