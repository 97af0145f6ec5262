//! `fedcast resume`: continuation of a run that was killed, interrupted or failed.

use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::{CliError, lacks_data};
use super::interrupt::interruptible;
use super::ranks::RankArgs;
use super::run::drive;
use super::run_document::print_document;
use super::stderr::print_status;
use super::{Exit, OutputFormat, given, print_text};
use crate::data::show_loading;
use crate::experiment::ranks::ComputeResources;
use crate::experiment::{self, ResumeError, Resumed, read_manifest, read_summary};
use crate::methods::Registry;
use crate::report::Summary;

/// Resume a run that was killed, interrupted or failed, from its last checkpoint
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast resume runs/quickstart-1f2e3d4c-s1
  fedcast resume runs/quickstart-1f2e3d4c-s1 --workers 1

A resumed run ends with the same journal, tables and digests as an uninterrupted one; only wall
times differ. If a checkpoint is damaged, the one before is used; without any, the run starts from
the beginning. Section [record.checkpoint] of the scenario sets how often checkpoints are written:
every = \"round\" (the default), \"task\", \"never\" or a number of rounds; keep = 2, the number kept;
max_time_fraction = 0.05, the largest fraction of the run's time for them.
For a complete run there is nothing to do (exit code 4).")]
pub struct ResumeArgs {
    /// The run directory
    pub run: PathBuf,
    /// Worker threads that train clients [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    #[command(flatten)]
    pub ranks: RankArgs,
    /// Resume even if another version or arithmetic started the run
    #[arg(long)]
    pub force: bool,
    /// Print no progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Resumes the run, alone or with other ranks.
pub fn execute(args: &ResumeArgs, methods: &Registry) -> Result<Exit, CliError> {
    args.ranks.with_ranks(args.workers, methods, |ranks| {
        given::run_directory(&args.run)?;
        let resources = ComputeResources { workers: args.workers, ranks };
        go_on(&args.run, methods, resources, args.force, args.quiet, args.format)
    })
}

/// Adds advice to an error about missing data: they have to be where they were.
fn with_advice(error: ResumeError) -> CliError {
    if !matches!(&error, ResumeError::Run(run) if lacks_data(run)) {
        return error.into();
    }
    let help = "if the data moved, move them back, or put a link to them there".to_owned();
    CliError::Advised { error: Box::new(error), help }
}

/// Resumes the run in a directory.
pub(super) fn go_on(
    path: &Path,
    methods: &Registry,
    resources: ComputeResources,
    force: bool,
    quiet: bool,
    format: OutputFormat,
) -> Result<Exit, CliError> {
    show_loading(!quiet);
    let resumed = experiment::resume(path, methods, resources, force).map_err(with_advice)?;
    let Resumed { run, scenario, notices, replayed } = resumed;
    for notice in notices {
        print_status(&notice);
    }
    drive(interruptible(), run, &scenario, replayed, methods, quiet, format)
}

/// Prints the directory or the summary of a complete run and returns the exit code of that run.
pub(super) fn print_results(path: &Path, format: OutputFormat) -> Result<Exit, CliError> {
    let summary = read_summary(path)?;
    match format {
        OutputFormat::Human => print_text(&format!("directory   {}\n", path.display()))?,
        OutputFormat::Json => {
            let hash = read_manifest(path)?.scenario.hash;
            print_document(path, &hash, &summary)?;
        }
    }
    Ok(if Summary::json_trained_nothing(&summary) { Exit::Training } else { Exit::Done })
}
