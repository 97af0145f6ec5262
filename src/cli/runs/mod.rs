//! `fedcast runs`: list, description and removal of the runs below a folder.

mod follow;
mod remove;
mod show;
mod table;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

pub(super) use show::RunDescription;
pub(super) use table::RunList;

use super::failure::CliError;
use super::{Exit, OutputFormat};
use crate::methods::Registry;
use crate::results::State;

/// List the runs below a folder, describe one, or remove some
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  fedcast runs                                 runs below runs/, else below this folder
  fedcast runs ls studies/scale --sort faa
  fedcast runs ls --status killed --status failed --method hgp
  fedcast runs --follow studies/scale          a line per round, until no run is running
  fedcast runs show runs/quickstart-1f2e3d4c-s1
  fedcast runs rm runs/quickstart-1f2e3d4c-s1 --yes

A run is recognized by its manifest, not by its name. The process of a `killed` run ended before the
run did: `fedcast resume` continues it. `rm` removes only files that a run writes, and fails for a
run that another process still writes."
)]
pub struct RunsArgs {
    #[command(subcommand)]
    pub action: Option<Action>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// Subcommand of `fedcast runs`.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// List the runs below a folder
    Ls(ListArgs),
    /// Describe a run: scenario, seeds, machine, digests, metrics
    Show(ShowArgs),
    /// Remove runs, after confirmation
    Rm(RemoveArgs),
}

/// Filters and order of the list of runs.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Folder of runs [default: runs/ if it exists, else the current folder]
    pub folder: Option<PathBuf>,
    /// List only runs with this status; may be repeated
    #[arg(long, value_name = "STATUS", value_parser = state)]
    pub status: Vec<State>,
    /// List only runs of this method; may be repeated
    #[arg(long, value_name = "NAME")]
    pub method: Vec<String>,
    /// Order of the list
    #[arg(long, value_enum, default_value_t)]
    pub sort: Sort,
    /// Print a line for every round of running runs, with the time left, until none is running
    #[arg(long, conflicts_with_all = ["status", "sort", "format"])]
    pub follow: bool,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Run to describe.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The run directory
    pub run: PathBuf,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Runs to remove.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Run directories
    #[arg(required = true)]
    pub runs: Vec<PathBuf>,
    /// Remove without confirmation
    #[arg(short, long)]
    pub yes: bool,
}

/// Order of a list of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By directory
    #[default]
    Path,
    /// By name, then by seed
    Name,
    /// By method, then by seed
    Method,
    /// By status
    Status,
    /// By final average accuracy, largest first
    Faa,
    /// By bytes sent, largest first
    Bytes,
    /// By size on disk, largest first
    Size,
    /// By time of the last change, newest first
    Age,
}

fn state(word: &str) -> Result<State, String> {
    let known = State::ALL.iter().find(|(_, name)| *name == word);
    known.map(|(state, _)| *state).ok_or_else(|| {
        let words: Vec<&str> = State::ALL.iter().map(|(_, word)| *word).collect();
        format!("unknown status; use one of {}", words.join(", "))
    })
}

/// Lists, describes or removes runs.
pub fn execute(args: &RunsArgs, methods: &Registry) -> Result<Exit, CliError> {
    match &args.action {
        None => table::list(&args.list, methods),
        Some(Action::Ls(list)) => table::list(list, methods),
        Some(Action::Show(show)) => show::show(show, methods),
        Some(Action::Rm(remove)) => remove::remove(remove),
    }
}
