//! `fedcast plan`: bytes, virtual time and jobs of a scenario, computed without running it.

use std::path::PathBuf;

use clap::Args;

use super::failure::CliError;
use super::run::Overrides;
use super::{Exit, Format, print};
use crate::experiment::assemble::{blueprint, load};
use crate::experiment::plan::{self, Faults};
use crate::methods::Registry;
use crate::report::plan_table;

/// Predict bytes, virtual time and jobs of a scenario, without data, weights or training
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast plan scenarios/hgp/cifar100-beta0.5.toml
  fedcast plan scenarios/quickstart.toml --set wire.up.codec=f16 --format json
  fedcast plan scenarios/quickstart.toml --set preset=production --faults

A plan is a run in which layouts answer in place of training: sizes come from the method's own
declarations through the real encoder, so they are what a run sends, to the byte. Clients that
cannot be reached are missing as in the run; faults are left out unless --faults asks for them.
Where the data set has fixed class sizes no file is opened.")]
pub struct PlanArgs {
    /// The scenario file
    pub file: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// With the scenario's faults: losses, crashes, restarts; by default nothing fails
    #[arg(long)]
    pub faults: bool,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Plans the scenario.
pub fn execute(args: &PlanArgs) -> Result<Exit, CliError> {
    let methods = Registry::builtin();
    let scenario = load(&args.file, &args.overrides.all(), &methods)?;
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
