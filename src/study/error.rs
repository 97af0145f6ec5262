//! Why a study cannot be read, selected or run.

use std::path::PathBuf;

use thiserror::Error;

use crate::exit::{CommandError, Exit};
use crate::experiment::DirectoryError;
use crate::results::ResultsError;
use crate::scenario::ScenarioError;

/// What is wrong with a study, and what to do.
#[derive(Debug, Error)]
pub enum StudyError {
    /// The file cannot be read.
    #[error("cannot read the study {}: {source}\n  help: {help}", path.display())]
    Unreadable {
        /// As it was named.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
        /// What to do.
        help: String,
    },
    /// The study, its base or a change is wrong.
    #[error("{0}")]
    Scenario(#[from] ScenarioError),
    /// `--only`, `--shard` or `--set` says something that this study cannot do.
    #[error("{0}")]
    Selection(String),
    /// A cell's directory holds a run of another scenario.
    #[error(
        "{} holds a run of another scenario ({found}): the study or its base changed since. \
         Keep it and choose another -o, or remove that folder to run the cell anew{}",
        path.display(), others(*.more)
    )]
    OtherScenario {
        /// The first such directory.
        path: PathBuf,
        /// Its name and hash.
        found: String,
        /// How many more cells are so.
        more: usize,
    },
    /// The study's directory is that of a run.
    #[error(
        "{} is the directory of a run: the tables of a study would replace its own. Choose another -o",
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
        more => format!(" ({more} more cells are so)"),
    }
}

impl CommandError for StudyError {
    fn exit_code(&self) -> Exit {
        match self {
            StudyError::Unreadable { .. } | StudyError::Scenario(_) => Exit::Scenario,
            StudyError::Selection(_)
            | StudyError::OtherScenario { .. }
            | StudyError::InsideRun(_) => Exit::Usage,
            StudyError::Results(error) => error.exit_code(),
            StudyError::Directory(error) => error.exit_code(),
        }
    }
}
