//! Errors of whole runs: one type over all areas, so that one function can give exit codes.

use thiserror::Error;

use super::directory_error::DirectoryError;
use super::export::ExportError;
use super::fork::ForkError;
use super::journal_file::JournalError;
use super::ranks::RanksError;
use super::resume::ResumeError;
use super::verify::Divergence;
use super::what_if::Refused;
use crate::data::DataError;
use crate::federation::FederationError;
use crate::fetch::FetchError;
use crate::model::{DeviceError, ModelError};
use crate::scenario::ScenarioError;
use crate::wire::WireError;

/// Why a run could not be made, finished, read or repeated.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Keys that cannot go together, found only when the run is put together.
    #[error("{message}\n  help: {help}")]
    Unsupported {
        /// What does not go together.
        message: String,
        /// What to do.
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
    /// The simulation ended early.
    #[error(transparent)]
    Federation(#[from] FederationError),
    /// The run directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A run cannot go on.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// A model cannot come out.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A run cannot be forked there.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// A round that the recorded run does not have.
    #[error("there is no round {round}: the run has {rounds}")]
    NoRound {
        /// Asked for, from 1.
        round: u32,
        /// How many there are.
        rounds: u64,
    },
    /// A run cannot be told with other times.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A recomputed run is not the recorded one.
    #[error(transparent)]
    Diverged(#[from] Box<Divergence>),
}

impl From<RanksError> for ExperimentError {
    fn from(error: RanksError) -> ExperimentError {
        ExperimentError::Ranks(Box::new(error))
    }
}

impl ExperimentError {
    pub(crate) fn unsupported(message: impl Into<String>, help: impl Into<String>) -> Self {
        ExperimentError::Unsupported { message: message.into(), help: help.into() }
    }
}
