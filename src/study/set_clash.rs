//! Error of a change by `--set` that a study does not allow.

use thiserror::Error;

use crate::exit::{CommandError, Exit};
use crate::scenario::reader::Diagnostic;

/// Change by `--set` of a key that the study itself sets.
#[derive(Clone, Debug, Error)]
#[error("{message}\n  help: {help}")]
pub struct SetClash {
    message: String,
    help: String,
}

impl SetClash {
    /// Creates the error with its advice.
    pub(super) fn new(message: String, help: &str) -> SetClash {
        SetClash { message, help: help.to_owned() }
    }

    /// Returns the error as one of the study's file.
    pub fn diagnostic(self) -> Diagnostic {
        let SetClash { message, help } = self;
        Diagnostic { message, place: None, label: String::new(), help: Some(help) }
    }
}

impl CommandError for SetClash {
    fn exit_code(&self) -> Exit {
        Exit::Usage
    }
}
