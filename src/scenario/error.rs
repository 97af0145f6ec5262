//! What can be wrong with a scenario.

use std::path::PathBuf;

use thiserror::Error;

use super::reader::Diagnostic;
use crate::exit::{CommandError, Exit};

/// Why a scenario cannot be run.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read the scenario {}: {source}\n = help: {help}", path.display())]
    Unreadable {
        /// As it was named.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
        /// What to do.
        help: String,
    },
    /// The file can be read and is wrong; everything that is wrong with it.
    #[error("{}", render_all(.0, false))]
    Invalid(Vec<Diagnostic>),
}

impl ScenarioError {
    /// For a terminal: what `Display` prints, in color if wanted.
    pub fn render(&self, colour: bool) -> String {
        match self {
            ScenarioError::Unreadable { .. } => format!("error: {self}\n"),
            ScenarioError::Invalid(diagnostics) => render_all(diagnostics, colour),
        }
    }

    /// For programs: one entry per error. An unreadable file has no place.
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        match self {
            ScenarioError::Unreadable { path, source, help } => vec![Diagnostic {
                message: format!("cannot read the scenario {}: {source}", path.display()),
                place: None,
                label: String::new(),
                help: Some(help.clone()),
            }],
            ScenarioError::Invalid(diagnostics) => diagnostics.clone(),
        }
    }
}

fn render_all(diagnostics: &[Diagnostic], colour: bool) -> String {
    let each: Vec<String> = diagnostics.iter().map(|d| d.render(colour)).collect();
    each.join("\n")
}

impl CommandError for ScenarioError {
    fn exit_code(&self) -> Exit {
        Exit::Scenario
    }
}
