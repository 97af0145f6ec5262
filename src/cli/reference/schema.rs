//! `fedcast schema`: the file formats as JSON Schema, for editors.

use clap::{Args, ValueEnum};

use crate::cli::failure::CliError;
use crate::cli::{Exit, print};
use crate::methods::Registry;
use crate::scenario::Scenario;
use crate::study::Study;

/// Write the JSON Schema of scenario or study files to stdout, for editors
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast schema > scenario.schema.json
  fedcast schema study > study.schema.json

With Taplo, or VS Code and its extension \"Even Better TOML\", a file that begins with
  #:schema ./scenario.schema.json
is completed and checked as it is written; `fedcast check` knows more.")]
pub struct SchemaArgs {
    /// Of which files
    #[arg(value_enum, default_value_t)]
    pub of: Document,
}

/// A kind of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// What `fedcast run` reads.
    #[default]
    Scenario,
    /// What `fedcast study` reads.
    Study,
}

/// Prints it.
pub fn execute(args: &SchemaArgs) -> Result<Exit, CliError> {
    let schema = match args.of {
        Document::Scenario => Scenario::json_schema(&Registry::builtin()),
        Document::Study => Study::json_schema(),
    };
    print(&format!("{schema:#}\n"))?;
    Ok(Exit::Done)
}
