//! Errors of commands: how they are told.

use std::error::Error;
use std::io::IsTerminal;

use thiserror::Error;

use super::Exit;
use super::stderr::{print_status, print_styled, without_os_codes};
use crate::exit::CommandError;
use crate::scenario::ScenarioError;
use crate::scenario::reader::Diagnostic;

/// Why a command failed.
#[derive(Debug, Error)]
pub enum CliError {
    /// A wrong argument that the parser could not see.
    #[error("{0}")]
    Usage(String),
    /// An error of what the command calls.
    #[error("{0}")]
    Failed(Box<dyn CommandError>),
    /// Results that could not be told.
    #[error("cannot write to stdout: {0}; what was computed is as it is, see the run directory")]
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
    /// Tells it on stderr.
    pub fn print(&self) {
        match self.scenario() {
            Some(error) => print_styled(&error.render(colour())),
            None => print_status(&format!("error: {self}")),
        }
    }

    /// Tells it on stderr as one JSON document.
    pub fn print_json(&self) {
        let diagnostics = self.scenario().map(ScenarioError::diagnostics);
        let message = match diagnostics.as_deref() {
            Some([first, ..]) => first.message.clone(),
            _ => self.to_string(),
        };
        tell_json(self.exit_code(), &message, &diagnostics.unwrap_or_default());
    }

    /// The exit code.
    pub fn exit_code(&self) -> Exit {
        match self {
            CliError::Usage(_) => Exit::Usage,
            CliError::Failed(error) => error.exit_code(),
            CliError::Stdout(_) => Exit::Recording,
            CliError::Unexpected(_) => Exit::Unexpected,
        }
    }

    /// The scenario or study that is wrong, if that is it.
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

/// An error as programs read it: `{"error": {"exit", "message", "diagnostics": [...]}}`, one form for all commands.
pub fn tell_json(exit: Exit, message: &str, diagnostics: &[Diagnostic]) {
    let document = serde_json::json!({
        "error": { "exit": exit.code(), "message": without_os_codes(message), "diagnostics": diagnostics },
    });
    print_status(&format!("{document:#}"));
}

/// Whether stderr wants color.
pub fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
