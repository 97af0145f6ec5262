//! Documents of `--format json`: a version in each, and the type that says its form.

use serde::Serialize;

use super::failure::CliError;
use super::print;
use crate::document::Document;

/// Version of the documents that commands print; it counts changes of keys and their meanings.
///
/// Documents of runs (`run`, `resume`, `replay` of a whole run) are `summary.json`, with its own version.
pub(super) const DOCUMENT_FORMAT: u32 = 1;

/// A document with its version first.
#[derive(Serialize)]
pub(super) struct Versioned<'a, T> {
    pub format: u32,
    #[serde(flatten)]
    pub document: &'a T,
}

/// Prints a document on stdout.
///
/// Its type has the keys, so that `fedcast schema` knows them.
pub(super) fn print_json<T: Serialize + Document>(document: &T) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(&Versioned { format: DOCUMENT_FORMAT, document })
        .map_err(|error| CliError::Unexpected(error.to_string()))?;
    print(&format!("{text}\n"))
}
