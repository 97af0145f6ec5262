//! Native part of the Python package `fedcast`.
//!
//! It is a thin layer that reads scenarios, runs them on a thread without the GIL, and returns tables as Arrow arrays.
//! Everything that a user sees (classes, docstrings, exceptions) is Python, in `python/fedcast`.

mod attend;
mod columns;
mod command;
mod errors;
mod journal;
mod report;
mod rule;
mod runs;
mod scenario;
mod study;
mod table;
mod values;

use pyo3::prelude::*;

/// Native part of the package `fedcast`; the public names are in the package itself.
#[pymodule]
mod _fedcast {
    #[pymodule_export]
    use super::command::{columns, main, set_program};
    #[pymodule_export]
    use super::journal::events;
    #[pymodule_export]
    use super::runs::{fork, manifest, resume, run_table, summary, verify, what_if};
    #[pymodule_export]
    use super::scenario::Scenario;
    #[pymodule_export]
    use super::study::Study;
    #[pymodule_export]
    use super::table::Table;
}
