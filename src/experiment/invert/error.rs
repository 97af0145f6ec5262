//! Reasons why nothing of a run can be inverted.

use thiserror::Error;

use crate::exit::{CommandError, Exit};
use crate::experiment::resume::ResumeError;
use crate::experiment::run_error::RunError;
use crate::experiment::task_ends::not_ended;

/// Reason why an upload cannot be inverted.
#[derive(Debug, Error)]
pub enum InversionError {
    /// Method whose uploads are neither means of classes nor parameters of a network.
    #[error(
        "uploads of {0} have no means of single classes, nor parameters of which an image gives a gradient\n  help: \
         `fedcast help invert` says of which methods uploads are inverted"
    )]
    NothingToInvert(String),
    /// Run in which the server does not see the upload.
    #[error("the run protects its uploads: {0}\n  help: invert a run without it to compare")]
    Hidden(&'static str),
    /// Client that does not exist.
    #[error("there is no client {client}; the run has {clients}, from 0")]
    NoClient {
        /// Client that was asked for.
        client: u32,
        /// Number of clients.
        clients: u32,
    },
    /// Task that has not ended.
    #[error("the run {}", not_ended(*task, *ended))]
    NoTask {
        /// Task that was asked for, from 1.
        task: u32,
        /// Number of tasks that have ended.
        ended: usize,
    },
    /// Client without an upload that shows something of the class.
    #[error(
        "client {client} sent nothing about a {wanted} in task {task}\n  help: choose another client or task: partition.csv has \
         the classes of each"
    )]
    NoUpload {
        /// The client.
        client: u32,
        /// Task, from 1.
        task: u32,
        /// Words for the class: `class`, or its name.
        wanted: String,
    },
    /// The recorded run cannot be computed again.
    #[error("{0}")]
    Resume(#[from] ResumeError),
    /// The run, its inputs or its directory are invalid.
    #[error("{0}")]
    Run(#[source] RunError),
}

impl<E: Into<RunError>> From<E> for InversionError {
    fn from(error: E) -> InversionError {
        InversionError::Run(error.into())
    }
}

impl CommandError for InversionError {
    fn exit_code(&self) -> Exit {
        match self {
            InversionError::NothingToInvert(_)
            | InversionError::Hidden(_)
            | InversionError::NoClient { .. }
            | InversionError::NoTask { .. }
            | InversionError::NoUpload { .. } => Exit::Usage,
            InversionError::Resume(error) => error.exit_code(),
            InversionError::Run(error) => error.exit_code(),
        }
    }
}
