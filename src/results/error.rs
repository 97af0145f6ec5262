//! Errors of reading results.

use std::path::PathBuf;

use thiserror::Error;

use crate::exit::{CommandError, Exit};
use crate::experiment::DirectoryError;

/// Error of reading results, with advice.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// There is no run, or its manifest cannot be read.
    #[error(transparent)]
    Run(#[from] DirectoryError),
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file of a run is damaged.
    #[error(
        "{} is damaged: {why}\n  help: `fedcast replay RUN -o FOLDER` writes the tables of a run again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Problem.
        why: String,
    },
    /// There is no such metric.
    #[error("there is no metric `{name}`; {help}")]
    UnknownMetric {
        /// Name as given.
        name: String,
        /// Advice: a similar name, or the known ones.
        help: String,
    },
    /// A threshold that no accuracy can reach or that every accuracy reaches.
    #[error(
        "`{name}` needs an accuracy above 0 and at most 1 after the colon, such as `rounds_to:0.8`"
    )]
    Threshold {
        /// Name as given.
        name: String,
    },
    /// A table cannot be written in this format.
    #[error("cannot write Parquet: {0}")]
    Parquet(String),
}

impl CommandError for ResultsError {
    fn exit_code(&self) -> Exit {
        match self {
            ResultsError::Run(error) => error.exit_code(),
            ResultsError::Read { .. } | ResultsError::Damaged { .. } | ResultsError::Parquet(_) => {
                Exit::Recording
            }
            ResultsError::UnknownMetric { .. } | ResultsError::Threshold { .. } => Exit::Usage,
        }
    }
}
