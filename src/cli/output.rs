//! Output of results on stdout, and its formats.

use std::io::Write;

use clap::ValueEnum;

use super::failure::CliError;
use super::stderr::plain;
use crate::report::screen;

/// Format of results on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// Text and tables
    #[default]
    Human,
    /// One JSON document
    Json,
}

/// Writes a text for people to stdout, with lines that fit the screen.
pub(super) fn print_text(text: &str) -> Result<(), CliError> {
    print(&screen::fitted(text))
}

/// Writes a result to stdout as it is, without control characters.
///
/// A closed pipe (`fedcast … | head`) is no error.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(plain(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::Stdout(error))
        }
        _ => Ok(()),
    }
}
