//! Errors of a scenario.

use std::path::PathBuf;

use thiserror::Error;

use super::reader::Diagnostic;
use crate::exit::{CommandError, Exit};

/// Reason why a scenario cannot be run.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// Scenario file that cannot be read.
    #[error("cannot read the scenario {}: {source}\n = help: {help}", path.display())]
    Unreadable {
        /// Path as the user gave it.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
        /// Advice for the user.
        help: String,
    },
    /// Scenario file that cannot be replaced.
    #[error("cannot write {}: {source}\n = help: the file is as it was", path.display())]
    Unwritable {
        /// Path as the user gave it.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// File that can be read but is invalid, with all its errors.
    #[error("{}", render_all(.0, false))]
    Invalid(Vec<Diagnostic>),
}

impl ScenarioError {
    /// Returns the text of `Display`, with colors if `color` is set.
    pub fn render(&self, color: bool) -> String {
        match self {
            ScenarioError::Unreadable { .. } | ScenarioError::Unwritable { .. } => {
                format!("error: {self}\n")
            }
            ScenarioError::Invalid(diagnostics) => render_all(diagnostics, color),
        }
    }

    /// Returns one entry per error, for programs. An unreadable file has no place.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        match self {
            ScenarioError::Unreadable { path, source, help } => vec![Diagnostic {
                message: format!("cannot read the scenario {}: {source}", path.display()),
                place: None,
                label: String::new(),
                help: Some(help.clone()),
            }],
            ScenarioError::Unwritable { path, source } => vec![Diagnostic {
                message: format!("cannot write {}: {source}", path.display()),
                place: None,
                label: String::new(),
                help: Some("the file is as it was".to_owned()),
            }],
            ScenarioError::Invalid(diagnostics) => diagnostics.clone(),
        }
    }
}

fn render_all(diagnostics: &[Diagnostic], color: bool) -> String {
    let each: Vec<String> = diagnostics.iter().map(|d| d.render(color)).collect();
    each.join("\n")
}

impl CommandError for ScenarioError {
    fn exit_code(&self) -> Exit {
        Exit::Scenario
    }
}
