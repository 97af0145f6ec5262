//! `fedcast plan`: bytes, virtual time and jobs of a scenario, computed without running it.

use std::path::PathBuf;

use clap::Args;

use super::failure::CliError;
use super::run::Overrides;
use super::{Exit, Format, print};
use crate::experiment::assemble::{assemble, blueprint, load};
use crate::experiment::plan::{self, Faults};
use crate::experiment::{Holding, holdings};
use crate::methods::Registry;
use crate::report::{partition_table, plan_table};
use crate::scenario::Scenario;

/// Predict bytes, virtual time and jobs of a scenario, without data, weights or training
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast plan scenarios/hgp/cifar100-beta0.5.toml
  fedcast plan scenarios/quickstart.toml --set wire.up.codec=f16 --format json
  fedcast plan scenarios/quickstart.toml --set preset=production --faults
  fedcast plan scenarios/quickstart.toml --set partition.beta=0.1 --partition

A plan is a run in which layouts answer in place of training: sizes come from the method's own
declarations through the real encoder, so they are what a run sends, to the byte. Clients that
cannot be reached are missing as in the run; faults are left out unless --faults asks for them.
Where the data set has fixed class sizes no file is opened.

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
    /// Who holds how many samples of which class; reads the data
    #[arg(long, conflicts_with = "faults")]
    pub partition: bool,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Plans the scenario.
pub fn execute(args: &PlanArgs) -> Result<Exit, CliError> {
    let methods = Registry::builtin();
    let scenario = load(&args.file, &args.overrides.all(), &methods)?;
    if args.partition {
        return partition(args, &scenario, &methods);
    }
    let plan = plan::plan(
        &blueprint(&scenario, &methods)?,
        if args.faults { Faults::On } else { Faults::Off },
    )?;
    match args.format {
        Format::Human => print(&plan_table(&plan))?,
        Format::Json => {
            let text = serde_json::to_string_pretty(&plan)
                .map_err(|error| CliError::Unexpected(error.to_string()))?;
            print(&format!("{text}\n"))?;
        }
    }
    Ok(Exit::Done)
}

/// Prints who holds what.
fn partition(args: &PlanArgs, scenario: &Scenario, methods: &Registry) -> Result<Exit, CliError> {
    let Some(all) = holdings(&assemble(scenario, methods, Some(1))?.setup) else {
        let what = "clients are new in every round (participation.population = \"fresh\"): \
                    there is no partition before they are asked";
        return Err(CliError::Usage(what.to_string()));
    };
    match args.format {
        Format::Human => print(&partition_table(&all))?,
        Format::Json => {
            let row = |held: &Holding| {
                serde_json::json!({
                    "task": held.task.0 + 1, "client": held.client.0, "class": held.class,
                    "samples": held.samples,
                })
            };
            let rows: Vec<_> = all.iter().map(row).collect();
            print(&format!("{:#}\n", serde_json::Value::from(rows)))?;
        }
    }
    Ok(Exit::Done)
}
