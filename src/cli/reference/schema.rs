//! `fedcast schema`: JSON Schema of scenario and study files, for editors.

use clap::{Args, ValueEnum};

use crate::cli::failure::CliError;
use crate::cli::{Exit, print};
use crate::methods::Registry;
use crate::scenario::Scenario;
use crate::study::Study;

/// Print the JSON Schema of scenario or study files, for editors
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast schema > scenario.schema.json
  fedcast schema study > study.schema.json

With Taplo, or VS Code and its extension \"Even Better TOML\", a file that begins with
  #:schema ./scenario.schema.json
is completed and checked as you write; `fedcast check` checks more.")]
pub struct SchemaArgs {
    /// Kind of files
    #[arg(value_enum, default_value_t)]
    pub of: SchemaKind,
}

/// Kind of files that a schema describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// Scenario files, for `fedcast run`
    #[default]
    Scenario,
    /// Study files, for `fedcast study`
    Study,
}

/// Prints the schema.
pub fn execute(args: &SchemaArgs, methods: &Registry) -> Result<Exit, CliError> {
    let schema = match args.of {
        SchemaKind::Scenario => Scenario::json_schema(methods),
        SchemaKind::Study => Study::json_schema(),
    };
    print(&format!("{schema:#}\n"))?;
    Ok(Exit::Done)
}
