//! `fedcast plan`: bytes, virtual time and jobs of a scenario, computed without running it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::estimate::Estimator;
use super::failure::CliError;
use super::run::Overrides;
use super::stderr::print_status;
use super::{Exit, Format, print};
use crate::experiment::assemble::{assemble, blueprint, load};
use crate::experiment::estimate::Estimate;
use crate::experiment::plan::{self, Faults, Plan};
use crate::experiment::{Holding, holdings};
use crate::methods::Registry;
use crate::report::{estimate_lines, partition_table, plan_table};
use crate::scenario::Scenario;

/// Predict bytes, virtual time and jobs of a scenario, without data, weights or training
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast plan scenarios/hgp/cifar100-beta0.5.toml
  fedcast plan scenarios/quickstart.toml --set wire.up.codec=f16 --format json
  fedcast plan scenarios/quickstart.toml --set preset=production --faults
  fedcast plan scenarios/quickstart.toml --estimate
  fedcast plan scenarios/quickstart.toml --set partition.beta=0.1 --partition

A plan is a run in which layouts answer in place of training: sizes come from the method's own
declarations through the real encoder, so they are what a run sends, to the byte. Clients that
cannot be reached are missing as in the run; faults are left out unless --faults asks for them.
Where data.nominal says the sizes of classes no file is opened; otherwise the files of the data set
are listed, without decoding an image. Of CIFAR that is not here the published sizes are assumed;
whatever is assumed is said in a note.

--estimate adds seconds, memory and disk on this machine. It runs the beginning of the scenario for about
ten seconds (at least one client trains) and keeps what a unit of work took in the folder of caches
(FEDCAST_CACHE names another one); `run` then says at its end how good the estimate was.

With --partition the data are opened instead, and who holds how many samples of which class is
printed; --format json has every count, as partition.csv of a run does.")]
pub struct PlanArgs {
    /// The scenario file
    pub file: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// With the scenario's faults: losses, crashes, restarts; by default nothing fails
    #[arg(long)]
    pub faults: bool,
    /// Say what the run will take of this machine; reads data and weights
    #[arg(long)]
    pub estimate: bool,
    /// Measure again what an earlier --estimate has measured
    #[arg(long, requires = "estimate")]
    pub measure_again: bool,
    /// Worker threads to estimate for [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", requires = "estimate", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Who holds how many samples of which class; reads the data
    #[arg(long, conflicts_with = "faults")]
    pub partition: bool,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// How long a trial may go on; a client that trains is waited for.
const TRIAL: Duration = Duration::from_secs(10);

/// A plan as JSON.
#[derive(Serialize)]
struct Planned<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimate: Option<Estimate>,
}

/// Plans the scenario.
pub fn execute(args: &PlanArgs) -> Result<Exit, CliError> {
    let methods = Registry::builtin();
    let scenario = load(&args.file, &args.overrides.all(), &methods)?;
    if args.partition {
        return partition(args, &scenario, &methods);
    }
    let blueprint = blueprint(&scenario, &methods)?;
    for note in &blueprint.notes {
        print_status(&format!("note: {note}"));
    }
    let plan = plan::plan(&blueprint, if args.faults { Faults::On } else { Faults::Off })?;
    let estimate = match args.estimate {
        true => Estimator::new(Some(TRIAL), args.measure_again).estimate(
            &scenario,
            &plan,
            &methods,
            args.workers,
        )?,
        false => None,
    };
    match args.format {
        Format::Human => {
            print(&plan_table(&plan))?;
            estimate.map_or(Ok(()), |estimate| print(&estimate_lines(&estimate)))?;
        }
        Format::Json => {
            let text = serde_json::to_string_pretty(&Planned { plan: &plan, estimate })
                .map_err(|error| CliError::Unexpected(error.to_string()))?;
            print(&format!("{text}\n"))?;
        }
    }
    Ok(Exit::Done)
}

/// Prints who holds what.
fn partition(args: &PlanArgs, scenario: &Scenario, methods: &Registry) -> Result<Exit, CliError> {
    let assembly = assemble(scenario, methods, Some(1))?;
    let names = assembly.class_names;
    let Some(all) = holdings(&assembly.setup) else {
        let what = "clients are new in every round (participation.population = \"fresh\"): \
                    there is no partition before they are asked";
        return Err(CliError::Usage(what.to_string()));
    };
    match args.format {
        Format::Human => print(&partition_table(&all, &names))?,
        Format::Json => {
            let row = |held: &Holding| {
                serde_json::json!({
                    "task": held.task.0 + 1, "client": held.client.0, "class": held.class,
                    "name": names.of(held.class), "samples": held.samples,
                })
            };
            let rows: Vec<_> = all.iter().map(row).collect();
            print(&format!("{:#}\n", serde_json::Value::from(rows)))?;
        }
    }
    Ok(Exit::Done)
}
