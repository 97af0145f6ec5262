//! Results of commands on stdout, and the forms that they have.

use std::io::Write;

use clap::ValueEnum;

use super::failure::CliError;
use super::stderr::plain;

/// How results are written to stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Tables for people.
    #[default]
    Human,
    /// One JSON document.
    Json,
}

/// Writes a result to stdout, without control characters. A reader that went away (`fedcast … | head`) is no error.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(plain(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::Stdout(error))
        }
        _ => Ok(()),
    }
}
