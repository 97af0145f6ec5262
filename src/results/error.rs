//! Why results cannot be read.

use std::path::PathBuf;

use thiserror::Error;

use crate::exit::{CommandError, Exit};
use crate::experiment::DirectoryError;

/// What is wrong with results, and what to do.
#[derive(Debug, Error)]
pub enum ResultsError {
    /// No run is there, or its manifest cannot be read.
    #[error(transparent)]
    Run(#[from] DirectoryError),
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of a run is not what fedcast writes there.
    #[error(
        "{} is damaged: {why}; `fedcast replay RUN -o FOLDER` writes the tables of a run again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No such figure.
    #[error("there is no metric `{name}`; {help}")]
    UnknownMetric {
        /// As it was written.
        name: String,
        /// What was meant, or what there is.
        help: String,
    },
    /// A threshold that no accuracy can reach or that every one does.
    #[error(
        "`{name}` needs an accuracy above 0 and at most 1 behind the colon, such as `rounds_to:0.8`"
    )]
    Threshold {
        /// As it was written.
        name: String,
    },
    /// A table cannot become a file of this format.
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
