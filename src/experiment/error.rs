//! Errors of whole runs: one type over all areas, so that one function can give exit codes.

use thiserror::Error;

use super::journal_file::JournalError;
use super::run_directory::DirectoryError;
use crate::data::DataError;
use crate::model::ModelError;
use crate::policy::PolicyError;

/// Why a run could not be made, finished, read or repeated.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// Data is missing, damaged or cannot be divided as asked.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Weights are missing, damaged or of another shape.
    #[error(transparent)]
    Weights(#[from] ModelError),
    /// The method refused.
    #[error("method: {0}")]
    Policy(#[from] PolicyError),
    /// The run directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A combination of keys that no run can have.
    #[error("{0}")]
    Unsupported(String),
}
