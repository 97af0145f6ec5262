//! `fedcast schema`: JSON Schema of scenario and study files, for editors, and of the documents of a run.

use clap::{Args, ValueEnum};

use crate::cli::failure::CliError;
use crate::cli::{Exit, print};
use crate::methods::Registry;
use crate::report::dictionary::{RunDocument, json_schema};
use crate::scenario::Scenario;
use crate::study::Study;

/// Print the JSON Schema of scenario and study files, for editors, or of a document of a run
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast schema > scenario.schema.json
  fedcast schema study > study.schema.json
  fedcast schema summary > summary.schema.json   of summary.json, with the format in its $id

With Taplo, or VS Code and its extension \"Even Better TOML\", a file that begins with
  #:schema ./scenario.schema.json
is completed and checked as you write; `fedcast check` checks more.")]
pub struct SchemaArgs {
    /// Kind of files or documents
    #[arg(value_enum, default_value_t)]
    pub of: SchemaKind,
}

/// Kind of files or documents that a schema describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// Scenario files, for `fedcast run`
    #[default]
    Scenario,
    /// Study files, for `fedcast study`
    Study,
    /// Results of a run, summary.json
    Summary,
    /// Document of `fedcast run --format json`: the summary with directory and hash
    Run,
    /// Description of a run, manifest.json
    Manifest,
    /// Line of rounds.jsonl
    Rounds,
    /// Line of profile.jsonl
    Profile,
}

/// Prints the schema.
pub fn execute(args: &SchemaArgs, methods: &Registry) -> Result<Exit, CliError> {
    let schema = match args.of {
        SchemaKind::Scenario => Scenario::json_schema(methods),
        SchemaKind::Study => Study::json_schema(),
        SchemaKind::Summary => json_schema(RunDocument::Summary),
        SchemaKind::Run => json_schema(RunDocument::Run),
        SchemaKind::Manifest => json_schema(RunDocument::Manifest),
        SchemaKind::Rounds => json_schema(RunDocument::Rounds),
        SchemaKind::Profile => json_schema(RunDocument::Profile),
    };
    print(&format!("{schema:#}\n"))?;
    Ok(Exit::Done)
}
