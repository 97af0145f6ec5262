//! Errors of commands: how they are told, and which exit code they have.

use std::io::IsTerminal;

use thiserror::Error;

use super::Exit;
use super::tell::{show, tell, worded};
use crate::data::DataError;
use crate::experiment::{DirectoryError, ExperimentError, ExportError, ForkError, ResumeError};
use crate::federation::{FederationError, SinkError};
use crate::fetch::FetchError;
use crate::model::ModelError;
use crate::numerics::vectors::ArithmeticError;
use crate::results::ResultsError;
use crate::scenario::ScenarioError;
use crate::scenario::reader::Diagnostic;
use crate::study::StudyError;

/// Why a command failed.
#[derive(Debug, Error)]
pub enum CliError {
    /// A wrong argument that the parser could not see.
    #[error("{0}")]
    Usage(String),
    /// The environment asks for a path of arithmetic that is not there.
    #[error(transparent)]
    Arithmetic(#[from] ArithmeticError),
    /// A run could not be made, finished, read or repeated.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// A study could not be read, chosen from or brought together.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// Results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Something could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A file of weights cannot be used.
    #[error(transparent)]
    Weights(#[from] ModelError),
    /// Results that could not be told.
    #[error("cannot write to stdout: {0}; what was computed is as it is, see the run directory")]
    Stdout(std::io::Error),
    /// Anything else.
    #[error("{0}")]
    Unexpected(String),
}

impl From<ScenarioError> for CliError {
    fn from(error: ScenarioError) -> CliError {
        CliError::Experiment(error.into())
    }
}

impl From<DirectoryError> for CliError {
    fn from(error: DirectoryError) -> CliError {
        CliError::Experiment(error.into())
    }
}

impl CliError {
    /// Tells it on stderr.
    pub fn print(&self) {
        match self.scenario() {
            Some(error) => show(&error.render(colour())),
            None => tell(&format!("error: {self}")),
        }
    }

    /// Tells it on stderr as one JSON document.
    pub fn print_json(&self) {
        let diagnostics = self.scenario().map(ScenarioError::diagnostics);
        let message = match diagnostics.as_deref() {
            Some([first, ..]) => first.message.clone(),
            _ => self.to_string(),
        };
        tell_json(self.exit(), &message, &diagnostics.unwrap_or_default());
    }

    /// The scenario or study that is wrong, if that is it.
    fn scenario(&self) -> Option<&ScenarioError> {
        match self {
            CliError::Experiment(ExperimentError::Scenario(error))
            | CliError::Study(StudyError::Scenario(error)) => Some(error),
            _ => None,
        }
    }

    /// The exit code. This is the one place where an error becomes a number.
    pub fn exit(&self) -> Exit {
        match self {
            CliError::Usage(_) | CliError::Arithmetic(_) => Exit::Usage,
            CliError::Stdout(_) => Exit::Recording,
            CliError::Unexpected(_) => Exit::Unexpected,
            CliError::Experiment(error) => experiment(error),
            CliError::Study(error) => study(error),
            CliError::Results(error) => results(error),
            CliError::Fetch(error) => fetch(error),
            CliError::Weights(_) => Exit::Inputs,
        }
    }
}

fn experiment(error: &ExperimentError) -> Exit {
    match error {
        ExperimentError::Scenario(_)
        | ExperimentError::Unsupported { .. }
        | ExperimentError::Wire(_) => Exit::Scenario,
        ExperimentError::Data(error) => data(error),
        ExperimentError::Device(_) | ExperimentError::Ranks(_) => Exit::Device,
        ExperimentError::Weights(_) | ExperimentError::Fetch(_) => Exit::Inputs,
        ExperimentError::Diverged(_) => Exit::Diverged,
        ExperimentError::Refused(_) | ExperimentError::NoRound { .. } => Exit::Usage,
        ExperimentError::Resume(error) => match error {
            ResumeError::Complete(_) => Exit::NothingToDo,
            ResumeError::OtherScenario { .. } | ResumeError::OtherProgram { .. } => Exit::Usage,
            ResumeError::OtherInputs(_) => Exit::Inputs,
            ResumeError::NoScenario(_) | ResumeError::NoFork(_) => Exit::Recording,
        },
        ExperimentError::Fork(error) => match error {
            ForkError::NoTask { .. }
            | ForkError::Last(_)
            | ForkError::NotKept { .. }
            | ForkError::Earlier { .. }
            | ForkError::UnderWay { .. }
            | ForkError::Same
            | ForkError::Fixed { .. }
            | ForkError::OtherState(_)
            | ForkError::Itself => Exit::Usage,
            ForkError::Different { .. } => Exit::Diverged,
        },
        ExperimentError::Export(error) => match error {
            ExportError::NoTask { .. }
            | ExportError::NotKept { .. }
            | ExportError::NotMerged(_) => Exit::Usage,
            ExportError::Different { .. } => Exit::Diverged,
            ExportError::Unreadable { .. } => Exit::Recording,
        },
        ExperimentError::Journal(_) => Exit::Recording,
        ExperimentError::Directory(error) => directory(error),
        ExperimentError::Federation(error) => match error {
            FederationError::Sink(SinkError::Io(_)) => Exit::Recording,
            FederationError::Sink(SinkError::Stop(_)) => Exit::Unexpected,
            FederationError::Deadlock { .. } => Exit::Deadlock,
            FederationError::Workers(_)
            | FederationError::Conductor(_)
            | FederationError::Device(_)
            | FederationError::Memory(_) => Exit::Device,
            FederationError::Data(_) => Exit::Inputs,
            FederationError::Impossible(_) => Exit::Scenario,
            FederationError::Unrecorded(_) => Exit::Recording,
            FederationError::BadUpdate { .. } | FederationError::Download { .. } => Exit::Training,
            FederationError::Policy { .. }
            | FederationError::Panicked { .. }
            | FederationError::Evaluation(_)
            | FederationError::Upload { .. }
            | FederationError::ActorGone(_) => Exit::Unexpected,
        },
    }
}

/// A name that is none is a matter of the command line; the rest are inputs that are not there.
fn fetch(error: &FetchError) -> Exit {
    match error {
        FetchError::Unknown { .. } | FetchError::NoHubName(_) => Exit::Usage,
        _ => Exit::Inputs,
    }
}

fn directory(error: &DirectoryError) -> Exit {
    match error {
        DirectoryError::Unfinished { .. } | DirectoryError::Finished(_) => Exit::NothingToDo,
        DirectoryError::InUse(_)
        | DirectoryError::NoFolder { .. }
        | DirectoryError::Link(_)
        | DirectoryError::OtherScenario { .. }
        | DirectoryError::OtherRun { .. }
        | DirectoryError::ForeignManifest(_)
        | DirectoryError::NotARun(_)
        | DirectoryError::Unreadable { .. } => Exit::Usage,
        DirectoryError::Read { .. } | DirectoryError::Write { .. } => Exit::Recording,
    }
}

fn study(error: &StudyError) -> Exit {
    match error {
        StudyError::Unreadable { .. } | StudyError::Scenario(_) => Exit::Scenario,
        StudyError::Selection(_) | StudyError::OtherScenario { .. } | StudyError::InsideRun(_) => {
            Exit::Usage
        }
        StudyError::Results(error) => results(error),
        StudyError::Directory(error) => directory(error),
    }
}

fn results(error: &ResultsError) -> Exit {
    match error {
        ResultsError::Run(error) => directory(error),
        ResultsError::Read { .. } | ResultsError::Damaged { .. } | ResultsError::Parquet(_) => {
            Exit::Recording
        }
        ResultsError::UnknownMetric { .. } | ResultsError::Threshold { .. } => Exit::Usage,
    }
}

/// An error as programs read it: `{"error": {"exit", "message", "diagnostics": [...]}}`, one form for all commands.
pub fn tell_json(exit: Exit, message: &str, diagnostics: &[Diagnostic]) {
    let document = serde_json::json!({
        "error": { "exit": exit.code(), "message": worded(message), "diagnostics": diagnostics },
    });
    tell(&format!("{document:#}"));
}

/// What cannot be asked of intact data is a matter of the scenario.
fn data(error: &DataError) -> Exit {
    match error {
        DataError::Infeasible { .. } | DataError::Unfit { .. } => Exit::Scenario,
        _ => Exit::Inputs,
    }
}

/// Whether stderr wants colour.
pub fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
