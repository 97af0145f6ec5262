//! `fedcast fork`: goes on from the end of a task of a recorded run, with something else in its scenario.

use std::path::PathBuf;

use clap::Args;

use super::failure::CliError;
use super::interrupt::interruptible;
use super::run::{Overrides, drive, provenance};
use super::stderr::print_status;
use super::{Exit, Format, given};
use crate::experiment::{self, ForkOptions, Resumed};
use crate::methods::Registry;

/// Go on from the end of a task of a recorded run, with other settings
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast run scenarios/quickstart.toml --set record.checkpoint.every=task \\
    --set record.checkpoint.keep=99 --set record.checkpoint.share=1.0 -o runs/quick
  fedcast fork runs/quick --after-task 2 --set client.optimiser.lr=0.001 -o runs/slower
  fedcast fork runs/quick --after-task 2 --seed 2 --recompute
  fedcast compare runs/quick runs/slower

What was learnt until then is taken over: the server's state, those of clients, the journal. The new
run's directory is whole: its journal and tables begin with the first round, it is resumed, replayed
and verified like any other (from where it was forked on), and its manifest says where it comes from.

What was learnt depends on [data], [tasks], [partition], [backbone], on the method and on how many
clients there are, so these stay. Any other key may change, as long as the model and what clients
keep have the same shapes. Updates that are still under way when the task ends (late ones that
count) make a fork impossible there.")]
pub struct ForkArgs {
    /// The run directory
    pub run: PathBuf,
    /// The last task that is taken over, from 1
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    pub after_task: u32,
    #[command(flatten)]
    pub overrides: Overrides,
    /// The new run directory [default: runs/<name>-<hash>-s<seed>-after-task-<T>]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Compute the recorded run again up to there where it kept no checkpoint of it
    #[arg(long)]
    pub recompute: bool,
    /// Replace what is in the new directory
    #[arg(long)]
    pub force: bool,
    /// Worker threads that train clients [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// No progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Forks the run and executes it.
pub fn execute(args: &ForkArgs) -> Result<Exit, CliError> {
    given::run_directory(&args.run)?;
    let interrupt = interruptible();
    let options = ForkOptions {
        after_task: args.after_task,
        provenance: provenance(&args.overrides, None),
        overrides: args.overrides.all(),
        out: args.out.clone(),
        recompute: args.recompute,
        force: args.force,
        workers: args.workers,
    };
    let forked = experiment::fork(&args.run, &Registry::builtin(), &options, interrupt.clone());
    if interrupt.is_requested() {
        return Ok(Exit::Interrupted);
    }
    let Resumed { run, scenario, notices, replayed } = forked?;
    for notice in notices {
        print_status(&notice);
    }
    drive(interrupt, run, &scenario, replayed, args.quiet, args.format)
}
