//! `fedcast runs`: the runs below a folder: listed, shown, removed.

mod remove;
mod show;
mod table;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::failure::CliError;
use super::{Exit, Format};
use crate::results::State;

/// List the runs below a folder, show one, or remove some
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  fedcast runs                                 those below runs/, or below this folder
  fedcast runs ls studies/scale --sort faa
  fedcast runs ls --status killed --status failed --method hgp
  fedcast runs show runs/quickstart-1f2e3d4c-s1
  fedcast runs rm runs/quickstart-1f2e3d4c-s1 --yes

A run is recognised by its manifest, not by its name. `killed` is a run whose process is gone before
it ended: `fedcast resume` goes on with it. `rm` removes the files that a run writes and nothing
else, and refuses a run that is being written."
)]
pub struct RunsArgs {
    #[command(subcommand)]
    pub action: Option<Action>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// What to do with runs.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the runs below a folder
    Ls(ListArgs),
    /// Show what is known of a run
    Show(ShowArgs),
    /// Remove runs, after a question
    Rm(RemoveArgs),
}

/// Which runs are listed, and how.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The folder [default: runs if there is one, else the current folder]
    pub folder: Option<PathBuf>,
    /// Only runs that stand so; may be repeated
    #[arg(long, value_name = "STATUS", value_parser = state)]
    pub status: Vec<State>,
    /// Only runs of this method; may be repeated
    #[arg(long, value_name = "NAME")]
    pub method: Vec<String>,
    /// The order
    #[arg(long, value_enum, default_value_t)]
    pub sort: Sort,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Which run is shown.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run directory
    pub run: PathBuf,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Which runs are removed.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Run directories
    #[arg(required = true)]
    pub runs: Vec<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By directory.
    #[default]
    Path,
    /// By name, then seed.
    Name,
    Method,
    Status,
    /// The best first.
    Faa,
    /// The most first.
    Bytes,
    /// The largest first.
    Size,
    /// The newest first.
    Age,
}

fn state(word: &str) -> Result<State, String> {
    let known = State::ALL.iter().find(|(_, name)| *name == word);
    known.map(|(state, _)| *state).ok_or_else(|| {
        let words: Vec<&str> = State::ALL.iter().map(|(_, word)| *word).collect();
        format!("there are {}", words.join(", "))
    })
}

/// Lists, shows or removes.
pub fn execute(args: &RunsArgs) -> Result<Exit, CliError> {
    match &args.action {
        None => table::list(&args.list),
        Some(Action::Ls(list)) => table::list(list),
        Some(Action::Show(show)) => show::show(show),
        Some(Action::Rm(remove)) => remove::remove(remove),
    }
}
