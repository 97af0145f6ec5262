//! Errors of the library as Python exceptions of the package.

use std::any::Any;
use std::error::Error;

use fedcast::exit::{CommandError, Exit};
use fedcast::scenario::ScenarioError;
use pyo3::prelude::*;

/// Error on its way to Python: text, exit code of the command line, and places in a scenario.
#[derive(Debug)]
pub struct Failure {
    message: String,
    exit: Exit,
    /// JSON list of diagnostics; `None` unless a scenario or study is invalid.
    diagnostics: Option<String>,
}

impl<E: CommandError + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        let exit = error.exit_code();
        let diagnostics = scenario_error(&error).map(ScenarioError::diagnostics);
        Failure {
            message: error.to_string(),
            exit,
            diagnostics: diagnostics.and_then(|found| serde_json::to_string(&found).ok()),
        }
    }
}

impl Failure {
    /// Returns the error of a wrong call.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), exit: Exit::Usage, diagnostics: None }
    }

    /// Returns the error of a file that is missing or damaged.
    pub fn recording(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), exit: Exit::Recording, diagnostics: None }
    }

    /// Returns the error of a panic, which must not reach Python as one.
    pub fn panicked(payload: &(dyn Any + Send)) -> Failure {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = format!("internal error of fedcast: {}", text.unwrap_or("unknown"));
        Failure { message, exit: Exit::Unexpected, diagnostics: None }
    }

    /// Returns the exception of the package, see `python/fedcast/_errors.py`.
    pub fn to_exception(&self, py: Python<'_>) -> PyErr {
        let made = || -> PyResult<PyErr> {
            let make = py.import("fedcast._errors")?.getattr("of_failure")?;
            let arguments = (&self.message, self.exit.code(), &self.diagnostics);
            Ok(PyErr::from_value(make.call1(arguments)?))
        };
        made().unwrap_or_else(|error| error)
    }
}

/// Returns the error of an invalid scenario or study, if it is the cause.
fn scenario_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e ScenarioError> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}
