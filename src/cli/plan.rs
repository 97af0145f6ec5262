//! `fedcast plan`: bytes, virtual time and jobs of a scenario, computed without running it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::estimate::Estimator;
use super::failure::{CliError, placed, placed_run};
use super::run::Overrides;
use super::stderr::print_status;
use super::{Exit, OutputFormat, print_json, print_text};
use crate::document::Document;
use crate::experiment::assemble::{DividedData, blueprint, divided};
use crate::experiment::estimate::Estimate;
use crate::experiment::plan::{self, Faults, Plan};
use crate::experiment::{Holding, holdings};
use crate::methods::Registry;
use crate::report::{estimate_lines, partition_table, plan_table};
use crate::scenario::{Loaded, Override, Scenario};

/// Predict bytes, virtual time and jobs of a scenario, without data, weights or training
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast plan scenarios/hgp/cifar100-beta0.5.toml
  fedcast plan scenarios/quickstart.toml --set wire.up.codec=f16 --format json
  fedcast plan scenarios/quickstart.toml --set preset=production --faults
  fedcast plan scenarios/quickstart.toml --estimate
  fedcast plan scenarios/quickstart.toml --set partition.beta=0.1 --partition

A plan is a run without training. Message sizes come from the method's declared layouts and the real
encoder, so they equal those of a run, to the byte; sizes that depend on learned values are upper
bounds, and a note names their phases. Unavailable clients are missing as in the run; faults are
left out without --faults. If data.nominal gives the class sizes, no file is opened; otherwise the
files of the data set are listed, and no image is decoded. If CIFAR is not here, its published sizes
are assumed. A note states every assumption.

--estimate adds seconds, memory and disk on this machine. It runs the start of the scenario for
about ten seconds (at least one client trains) and keeps the measured costs in the folder of caches
(set another one with FEDCAST_CACHE). `fedcast run` then prints how good the estimate was.

--partition opens the data instead (weights need not be there) and prints the samples of every
client by class; --format json prints every count, as partition.csv of a run does.")]
pub struct PlanArgs {
    /// The scenario file
    pub file: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Include the scenario's faults: losses, crashes, restarts
    #[arg(long)]
    pub faults: bool,
    /// Estimate time, memory and disk on this machine; reads data and weights
    #[arg(long)]
    pub estimate: bool,
    /// Measure costs again that an earlier --estimate kept
    #[arg(long, requires = "estimate")]
    pub measure_again: bool,
    /// Worker threads to estimate for [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", requires = "estimate", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Print the samples of every client by class; reads the data
    #[arg(long, conflicts_with = "faults")]
    pub partition: bool,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Time budget of a trial, which still waits for a client in training.
const TRIAL: Duration = Duration::from_secs(10);

/// A plan as JSON.
#[derive(Serialize, Document)]
pub(super) struct Planned<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    /// Use of this machine, with `--estimate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<Estimate>,
}

/// Samples of every client as JSON.
#[derive(Serialize, Document)]
pub(super) struct PlannedPartition<'a> {
    /// Samples by task, client and class, as in partition.csv.
    holdings: Vec<PlannedHolding<'a>>,
}

/// Samples of one class that a client has in a task.
#[derive(Serialize, Document)]
struct PlannedHolding<'a> {
    /// Task, from 1.
    task: u32,
    /// Client, from 0.
    client: u32,
    /// Class, from 0.
    class: u32,
    /// Name of the class; empty where it is not known.
    name: &'a str,
    /// Number of training samples.
    samples: u64,
}

/// Plans the scenario.
pub fn execute(args: &PlanArgs, methods: &Registry) -> Result<Exit, CliError> {
    let overrides: Vec<Override> = args.overrides.all().iter().map(Override::new).collect();
    let loaded = Scenario::load(&args.file, &overrides, methods)?;
    let scenario = &loaded.scenario;
    if args.partition {
        return partition(args, &loaded);
    }
    let blueprint = blueprint(scenario, methods).map_err(|error| placed(&loaded, error))?;
    for note in &blueprint.notes {
        print_status(&format!("note: {note}"));
    }
    let faults = if args.faults { Faults::On } else { Faults::Off };
    let plan = plan::plan(&blueprint, faults).map_err(|error| placed_run(&loaded, error))?;
    let estimate = match args.estimate {
        true => Estimator::new(Some(TRIAL), args.measure_again).estimate(
            scenario,
            &plan,
            methods,
            args.workers,
        )?,
        false => None,
    };
    match args.format {
        OutputFormat::Human => {
            print_text(&plan_table(&plan))?;
            estimate.map_or(Ok(()), |estimate| print_text(&estimate_lines(&estimate)))?;
        }
        OutputFormat::Json => print_json(&Planned { plan: &plan, estimate })?,
    }
    Ok(Exit::Done)
}

/// Prints the samples of every client by class.
fn partition(args: &PlanArgs, loaded: &Loaded) -> Result<Exit, CliError> {
    let divided = divided(&loaded.scenario).map_err(|error| placed(loaded, error))?;
    let DividedData { dataset, class_names: names, task_sequence, shards } = divided;
    let Some(all) = holdings(&shards, &dataset, &task_sequence) else {
        let what = "clients are new in every round (participation.population = \"fresh\"): \
                    there is no partition before they are sampled";
        return Err(CliError::Usage(what.to_string()));
    };
    match args.format {
        OutputFormat::Human => print_text(&partition_table(&all, &names))?,
        OutputFormat::Json => {
            let row = |held: &Holding| PlannedHolding {
                task: u32::from(held.task.0) + 1,
                client: held.client.0,
                class: held.class,
                name: names.of(held.class),
                samples: held.samples,
            };
            print_json(&PlannedPartition { holdings: all.iter().map(row).collect() })?;
        }
    }
    Ok(Exit::Done)
}
