//! `fedcast man`: manual pages of all commands.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::cli::failure::CliError;
use crate::cli::{Cli, Exit, print};

/// Write manual pages of all commands into a folder, or the first one to stdout
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast man | man -l -                           the page of the program
  fedcast man --out ~/.local/share/man/man1        then: man fedcast, man fedcast-run")]
pub struct ManArgs {
    /// Folder of the manual pages; created if missing [default: the program's page to stdout]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Writes a page for the program and one for every command, or prints that of the program.
pub fn execute(args: &ManArgs) -> Result<Exit, CliError> {
    let Some(out) = &args.out else {
        let mut page = Vec::new();
        let written = clap_mangen::Man::new(Cli::command()).render(&mut page);
        written.map_err(|error| CliError::Unexpected(error.to_string()))?;
        print(&String::from_utf8_lossy(&page))?;
        return Ok(Exit::Done);
    };
    let refused = |error: std::io::Error| {
        CliError::Usage(format!("cannot write manual pages into {}: {error}", out.display()))
    };
    std::fs::create_dir_all(out).map_err(refused)?;
    clap_mangen::generate_to(Cli::command(), out).map_err(refused)?;
    print(&format!(
        "manual pages are in {}; `man {}/fedcast.1` shows the first\n",
        out.display(),
        out.display()
    ))?;
    Ok(Exit::Done)
}
