//! Errors of commands, as text and as JSON on stderr.

use std::error::Error;
use std::io::IsTerminal;

use serde::Serialize;
use thiserror::Error;

use super::Exit;
use super::printed::{DOCUMENT_FORMAT, Versioned};
use super::stderr::{print_status, print_styled, without_os_codes};
use crate::data::DataError;
use crate::document::Document;
use crate::exit::CommandError;
use crate::experiment::RunError;
use crate::experiment::assemble::AssembleError;
use crate::federation::FederationError;
use crate::scenario::reader::Diagnostic;
use crate::scenario::{Loaded, ScenarioError};

/// Error that ends a command.
#[derive(Debug, Error)]
pub enum CliError {
    /// A wrong argument that the parser cannot detect.
    #[error("{0}")]
    Usage(String),
    /// An error of a module that the command calls.
    #[error("{0}")]
    Failed(Box<dyn CommandError>),
    /// An error of a module, with advice that only the command can give.
    #[error("{error}\n  help: {help}")]
    Advised {
        /// The error.
        error: Box<dyn CommandError>,
        /// Advice.
        help: String,
    },
    /// Results that could not be written to stdout.
    #[error(
        "cannot write to stdout: {0}\n  help: results that were computed are in the run directory"
    )]
    Stdout(std::io::Error),
    /// Anything else.
    #[error("{0}")]
    Unexpected(String),
}

impl<E: CommandError + 'static> From<E> for CliError {
    fn from(error: E) -> CliError {
        CliError::Failed(Box::new(error))
    }
}

impl CliError {
    /// Prints the error on stderr.
    pub fn print(&self) {
        match self.scenario() {
            Some(error) => print_styled(&error.render(color())),
            None => print_status(&format!("error: {self}")),
        }
    }

    /// Prints the error on stderr as one JSON document.
    pub fn print_json(&self) {
        let diagnostics = self.scenario().map(ScenarioError::diagnostics);
        let message = match diagnostics.as_deref() {
            Some([first, ..]) => first.message.clone(),
            _ => self.to_string(),
        };
        print_json_error(self.exit_code(), &message, &diagnostics.unwrap_or_default());
    }

    /// Returns the exit code.
    pub fn exit_code(&self) -> Exit {
        match self {
            CliError::Usage(_) => Exit::Usage,
            CliError::Failed(error) | CliError::Advised { error, .. } => error.exit_code(),
            CliError::Stdout(_) => Exit::Recording,
            CliError::Unexpected(_) => Exit::Unexpected,
        }
    }

    /// Returns the error of the invalid scenario or study, if it is the cause.
    fn scenario(&self) -> Option<&ScenarioError> {
        let CliError::Failed(error) = self else { return None };
        let mut error: Option<&(dyn Error + 'static)> = Some(&**error);
        while let Some(at) = error {
            if let Some(scenario) = at.downcast_ref() {
                return Some(scenario);
            }
            error = at.source();
        }
        None
    }
}

/// Returns true if a run cannot be put together because its data are not where they were.
pub(super) fn lacks_data(error: &RunError) -> bool {
    matches!(error, RunError::Assemble(AssembleError::Data(DataError::Missing { .. })))
}

/// Returns an error of a run that is put together, at the key of the scenario that it is about.
pub(super) fn placed(loaded: &Loaded, error: AssembleError) -> CliError {
    match error.place(loaded) {
        Ok(error) => error.into(),
        Err(error) => error.into(),
    }
}

/// Returns an error of a run, at the key of the scenario that it is about.
pub(super) fn placed_run(loaded: &Loaded, error: RunError) -> CliError {
    match error {
        RunError::Assemble(error) => placed(loaded, error),
        RunError::Federation(FederationError::NeverAvailable { at, round, help }) => {
            let what =
                format!("after {at} no client that can be sampled in {round} is ever available");
            loaded.error_at("availability", &what, "all clients are gone", help).into()
        }
        other => other.into(),
    }
}

/// Error of a command as JSON.
#[derive(Serialize, Document)]
pub(super) struct PrintedError<'a> {
    #[document(of = "the error")]
    error: FailedCommand<'a>,
}

/// Reason why a command failed.
#[derive(Serialize, Document)]
struct FailedCommand<'a> {
    /// Exit code.
    exit: u8,
    /// Message.
    message: &'a str,
    /// Errors of a scenario or study file with their places.
    diagnostics: &'a [Diagnostic],
}

/// Prints an error on stderr as JSON, in the same form for all commands.
///
/// The form is `{"format", "error": {"exit", "message", "diagnostics": [...]}}`.
pub fn print_json_error(exit: Exit, message: &str, diagnostics: &[Diagnostic]) {
    let message = without_os_codes(message);
    let error = FailedCommand { exit: exit.code(), message: &message, diagnostics };
    let document = Versioned { format: DOCUMENT_FORMAT, document: &PrintedError { error } };
    let document = serde_json::json!(document);
    print_status(&format!("{document:#}"));
}

/// Returns true if stderr is a terminal and `NO_COLOR` is unset or empty.
pub fn color() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
