//! `fedcast resume`: goes on with a run that was killed, interrupted or failed.

use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::CliError;
use super::interrupt::interruptible;
use super::ranks::RankArgs;
use super::run::drive;
use super::stderr::print_status;
use super::{Exit, Format, given, print};
use crate::data::show_loading;
use crate::experiment::ranks::ComputeResources;
use crate::experiment::{self, Resumed, read_summary};
use crate::methods::Registry;
use crate::report::Summary;

/// Go on with a run that was killed, interrupted or failed, from its last checkpoint
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast resume runs/quickstart-1f2e3d4c-s1
  fedcast resume runs/quickstart-1f2e3d4c-s1 --workers 1

A resumed run ends with the same journal, tables and digests as one that was never killed; only
wall times differ. A damaged checkpoint falls back to the one before; without any the run begins
anew. How often checkpoints are written is a matter of the scenario: [record.checkpoint] with
every = \"round\" (the default), \"task\", \"never\" or a number of rounds; keep = 2; and
share = 0.05, the largest part of the run's time that may go into them.
A complete run is nothing to do (exit code 4).")]
pub struct ResumeArgs {
    /// The run directory
    pub run: PathBuf,
    /// Worker threads that train clients [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    #[command(flatten)]
    pub ranks: RankArgs,
    /// Go on although another version or arithmetic began the run
    #[arg(long)]
    pub force: bool,
    /// No progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Goes on with the run.
pub fn execute(args: &ResumeArgs) -> Result<Exit, CliError> {
    args.ranks.with_ranks(args.workers, |ranks| {
        given::run_directory(&args.run)?;
        let crew = ComputeResources { workers: args.workers, ranks };
        go_on(&args.run, crew, args.force, args.quiet, args.format)
    })
}

/// Goes on with the run in a directory.
pub(super) fn go_on(
    path: &Path,
    crew: ComputeResources,
    force: bool,
    quiet: bool,
    format: Format,
) -> Result<Exit, CliError> {
    let methods = Registry::builtin();
    show_loading(!quiet);
    let resumed = experiment::resume(path, &methods, crew, force)?;
    let Resumed { run, scenario, notices, replayed } = resumed;
    for notice in notices {
        print_status(&notice);
    }
    drive(interruptible(), run, &scenario, replayed, quiet, format)
}

/// What a complete run came to: where it is, or its summary. It ends as the run itself did.
pub(super) fn tell_results(path: &Path, format: Format) -> Result<Exit, CliError> {
    let summary = read_summary(path)?;
    match format {
        Format::Human => print(&format!("directory   {}\n", path.display()))?,
        Format::Json => print(&summary)?,
    }
    Ok(if Summary::json_learnt_nothing(&summary) { Exit::Training } else { Exit::Done })
}
