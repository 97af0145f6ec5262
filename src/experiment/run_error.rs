//! Errors of a run.

use thiserror::Error;

use super::assemble::AssembleError;
use super::directory_error::DirectoryError;
use super::journal_file::JournalError;
use crate::exit::{CommandError, Exit};
use crate::federation::FederationError;

/// Reason why a run could not be made, finished or read.
#[derive(Debug, Error)]
pub enum RunError {
    /// Run that cannot be assembled.
    #[error("{0}")]
    Assemble(#[source] AssembleError),
    /// The simulation ended early.
    #[error(transparent)]
    Federation(#[from] FederationError),
    /// The run directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl<E: Into<AssembleError>> From<E> for RunError {
    fn from(error: E) -> RunError {
        RunError::Assemble(error.into())
    }
}

impl CommandError for RunError {
    fn exit_code(&self) -> Exit {
        match self {
            RunError::Assemble(error) => error.exit_code(),
            RunError::Federation(error) => error.exit_code(),
            RunError::Directory(error) => error.exit_code(),
            RunError::Journal(error) => error.exit_code(),
        }
    }
}
