//! `fedcast completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::failure::CliError;
use crate::cli::{Cli, Exit, print};

/// Print the completion script of a shell: commands, options and files
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

/// Prints the completion script of a shell.
pub fn execute(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "fedcast", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
