//! `fedcast completions`: what a shell needs to complete commands, options and files.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::failure::CliError;
use crate::cli::{Cli, Exit, print};

/// Write completions of commands and options for a shell to stdout
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast completions bash > ~/.local/share/bash-completion/completions/fedcast
  fedcast completions zsh > ~/.zfunc/_fedcast          with fpath+=~/.zfunc before compinit
  fedcast completions fish > ~/.config/fish/completions/fedcast.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Prints them.
pub fn execute(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fedcast", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
