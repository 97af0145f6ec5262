//! `fedcast plan`: bytes, virtual time and jobs of a scenario, computed without running it.

use std::path::PathBuf;

use clap::Args;

use super::failure::CliError;
use super::run::Overrides;
use super::{Exit, Format, print};
use crate::experiment::assemble::{blueprint, load};
use crate::experiment::plan;
use crate::methods::Registry;
use crate::report::plan_table;

/// Predict bytes, virtual time and jobs of a scenario, without data, weights or training
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast plan scenarios/hgp/cifar100-beta0.5.toml
  fedcast plan scenarios/quickstart.toml --set wire.up.codec=f16 --format json

Sizes come from the method's own sketches through the real encoder, so they are what a run
sends, to the byte. Where the data set has fixed class sizes no file is opened.")]
pub struct PlanArgs {
    /// The scenario file
    pub file: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Plans the scenario.
pub fn execute(args: &PlanArgs) -> Result<Exit, CliError> {
    let methods = Registry::builtin();
    let scenario = load(&args.file, &args.overrides.all(), &methods)?;
    let plan = plan::plan(&blueprint(&scenario, &methods)?)?;
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
