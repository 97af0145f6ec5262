//! The program `fedcast` and its data dictionary, for the package.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use fedcast::report::dictionary;
use fedcast::study;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::rule::Rule;

/// Run the command line with these words, of which the first is the program; returns the exit code.
#[pyfunction]
pub fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| {
        let exit = fedcast::cli::main_with(words, &Rule::new(None).registry());
        // The interpreter does not know this buffer.
        let _ = std::io::stdout().flush();
        exit.code()
    })
}

/// Return the files of the data dictionary as JSON, as in `files` of `fedcast columns --format json`.
#[pyfunction]
pub fn columns() -> PyResult<String> {
    let files: Vec<_> = dictionary::files().into_iter().chain(study::files()).collect();
    serde_json::to_string(&files).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Set the interpreter, and its first arguments, by which a study runs its cells.
#[pyfunction]
pub fn set_program(program: PathBuf, arguments: Vec<OsString>) {
    study::run_cells_by(program, arguments);
}
