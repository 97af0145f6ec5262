//! JSON document of a run on stdout: `summary.json` with the place and the scenario of the run.

use std::path::Path;

use serde::Serialize;

use super::failure::CliError;
use super::print;

/// A summary with the directory that holds the files of the run, and the hash of its scenario.
#[derive(Serialize)]
struct RunDocument<'a, S> {
    directory: String,
    hash: &'a str,
    #[serde(flatten)]
    summary: &'a S,
}

/// Prints the document of a run.
pub(super) fn print_document(
    directory: &Path,
    hash: &str,
    summary: &impl Serialize,
) -> Result<(), CliError> {
    let directory = directory.display().to_string();
    let text = serde_json::to_string_pretty(&RunDocument { directory, hash, summary });
    print(&format!("{}\n", text.map_err(|error| CliError::Unexpected(error.to_string()))?))
}
