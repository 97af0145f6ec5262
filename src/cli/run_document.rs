//! JSON document of a run on stdout: `summary.json` with the place and the scenario of the run.

use std::path::Path;

use serde_json::json;

use super::failure::CliError;
use super::print;

/// Prints a summary, which is a JSON object, with the run's directory and its scenario's hash.
pub(super) fn print_document(directory: &Path, hash: &str, summary: &str) -> Result<(), CliError> {
    let directory = json!(directory.display().to_string());
    let rest = summary.strip_prefix('{').unwrap_or(summary);
    print(&format!("{{\n  \"directory\": {directory},\n  \"hash\": {},{rest}", json!(hash)))
}
