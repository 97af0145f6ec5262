//! `fedcast fork`: new run from the end of a task of a recorded run, with other settings.

use std::path::PathBuf;

use clap::Args;

use super::failure::CliError;
use super::interrupt::interruptible;
use super::run::{Overrides, drive, provenance};
use super::stderr::print_status;
use super::{Exit, OutputFormat, given};
use crate::experiment::{self, ForkOptions, Resumed};
use crate::methods::Registry;

/// Continue a recorded run from the end of a task, with other settings
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast run scenarios/quickstart.toml --set record.checkpoint.every=task \\
    --set record.checkpoint.keep=99 --set record.checkpoint.max_time_fraction=1.0 -o runs/quick
  fedcast fork runs/quick --after-task 2 --set client.optimizer.lr=0.001 -o runs/slower
  fedcast fork runs/quick --after-task 2 --seed 2 --recompute
  fedcast compare runs/quick runs/slower

The new run takes over the states of the server and of clients, and the journal. Its directory is
complete: journal and tables begin with the first round. It can be resumed, replayed and, from the
fork on, verified like any other run. Its manifest names the recorded run.

[data], [tasks], [partition], [backbone], the method and the number of clients cannot change, nor
can wire.form, participation.population, preset and the seeds of partition and class order. Any
other key can, if the tensors of the model and of client states keep their shapes. A fork at the end
of a task is impossible while late updates that count are still in transit.")]
pub struct ForkArgs {
    /// The run directory
    pub run: PathBuf,
    /// Last task taken over from the recorded run, from 1
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..))]
    pub after_task: u32,
    #[command(flatten)]
    pub overrides: Overrides,
    /// The new run directory [default: runs/<name>-<hash>-s<seed>-after-task-<T>]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Compute the recorded run again up to that task if it kept no checkpoint of it
    #[arg(long)]
    pub recompute: bool,
    /// Replace an existing run in the new directory
    #[arg(long)]
    pub force: bool,
    /// Worker threads that train clients [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Print no progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Forks the run and executes the new one.
pub fn execute(args: &ForkArgs, methods: &Registry) -> Result<Exit, CliError> {
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
    let forked = experiment::fork(&args.run, methods, &options, interrupt.clone());
    if interrupt.is_requested() {
        return Ok(Exit::Interrupted);
    }
    let Resumed { run, scenario, notices, replayed } = forked?;
    for notice in notices {
        print_status(&notice);
    }
    drive(interrupt, run, &scenario, replayed, methods, args.quiet, args.format)
}
