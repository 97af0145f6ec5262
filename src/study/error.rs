//! Errors of reading, selecting and running studies.

use std::path::PathBuf;

use thiserror::Error;

use super::set_clash::SetClash;
use crate::exit::{CommandError, Exit};
use crate::experiment::DirectoryError;
use crate::results::ResultsError;
use crate::scenario::ScenarioError;

/// Error of a study, with advice.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The file cannot be read.
    #[error("cannot read the study {}: {source}\n  help: {help}", path.display())]
    Unreadable {
        /// Path as given.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
        /// Advice.
        help: String,
    },
    /// The study, its base or a change is wrong.
    #[error("{0}")]
    Scenario(#[from] ScenarioError),
    /// `--only` or `--shard` does not fit this study.
    #[error("{0}")]
    Selection(String),
    /// `--set` changes a key that the study itself sets.
    #[error(transparent)]
    SetClash(#[from] SetClash),
    /// A cell's directory holds a run of another scenario.
    #[error(
        "{} holds a run of another scenario ({found}){}: the study or its base has changed since\n  \
         help: keep it and choose another -o, or remove that folder to run the cell again",
        path.display(), others(*.more)
    )]
    OtherScenario {
        /// The first such directory.
        path: PathBuf,
        /// Name and hash of the other scenario.
        found: String,
        /// Number of further cells with a run of another scenario.
        more: usize,
    },
    /// The study's directory is that of a run.
    #[error(
        "{} is a run directory: the tables of a study would replace its own\n  help: choose another -o",
        .0.display()
    )]
    InsideRun(PathBuf),
    /// A result cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The directory of the study cannot be written.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

fn others(more: usize) -> String {
    match more {
        0 => String::new(),
        1 => ", as does 1 more cell".to_owned(),
        more => format!(", as do {more} more cells"),
    }
}

impl CommandError for StudyError {
    fn exit_code(&self) -> Exit {
        match self {
            StudyError::Unreadable { .. } | StudyError::Scenario(_) => Exit::Scenario,
            StudyError::SetClash(error) => error.exit_code(),
            StudyError::Selection(_)
            | StudyError::OtherScenario { .. }
            | StudyError::InsideRun(_) => Exit::Usage,
            StudyError::Results(error) => error.exit_code(),
            StudyError::Directory(error) => error.exit_code(),
        }
    }
}
