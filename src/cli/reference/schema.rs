//! `fedcast schema`: JSON Schema of scenario and study files, for editors, and of JSON documents.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::keys;
use crate::cli::failure::{self, CliError};
use crate::cli::printed::DOCUMENT_FORMAT;
use crate::cli::{
    Exit, check, columns, compare, doctor, export, fetch, methods, migrate, plan, print, replay,
    runs, single_task, study, weights,
};
use crate::document::Document;
use crate::experiment::InversionRecord;
use crate::methods::Registry;
use crate::report::dictionary::{RunDocument, json_schema, printed_schema};
use crate::scenario::Scenario;
use crate::study::{Study, StudyForecast};

/// Print the JSON Schema of scenario and study files, for editors, or of a JSON document
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast schema > scenario.schema.json
  fedcast schema study > study.schema.json
  fedcast schema summary > summary.schema.json   of summary.json, with the format in its $id
  fedcast schema compare                         of what compare --format json prints

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
    /// Document of `fedcast plan --format json`
    Plan,
    /// Document of `fedcast plan --partition --format json`
    Partition,
    /// Document of `fedcast check --format json`
    Check,
    /// Document of `fedcast compare --format json`
    Compare,
    /// Document of `fedcast runs --format json`
    Runs,
    /// Document of `fedcast runs show --format json`
    RunsShow,
    /// Document of `fedcast study --plan --format json`
    StudyPlan,
    /// Document of `fedcast study --format json`
    StudyRuns,
    /// Document of `fedcast replay --verify --format json`
    Verify,
    /// Document of `fedcast replay --set --format json`
    WhatIf,
    /// Document of `fedcast export --format json`
    Export,
    /// Document of `fedcast invert --format json`
    Invert,
    /// Document of `fedcast single-task --format json`
    SingleTask,
    /// Document of `fedcast weights --format json`
    Weights,
    /// Document of `fedcast fetch --format json`
    Fetch,
    /// Document of `fedcast fetch --list --format json`
    FetchList,
    /// Document of `fedcast methods --format json`
    Methods,
    /// Document of `fedcast keys --format json`
    Keys,
    /// Document of `fedcast columns --format json`
    Columns,
    /// Document of `fedcast migrate --format json`
    Migrate,
    /// Document of `fedcast doctor --format json`
    Doctor,
    /// Document of an error of any command, on stderr
    Error,
}

/// Prints the schema.
pub fn execute(args: &SchemaArgs, registry: &Registry) -> Result<Exit, CliError> {
    let schema = match args.of {
        SchemaKind::Scenario => Scenario::json_schema(registry),
        SchemaKind::Study => Study::json_schema(),
        SchemaKind::Summary => json_schema(RunDocument::Summary),
        SchemaKind::Run => json_schema(RunDocument::Run),
        SchemaKind::Manifest => json_schema(RunDocument::Manifest),
        SchemaKind::Rounds => json_schema(RunDocument::Rounds),
        SchemaKind::Profile => json_schema(RunDocument::Profile),
        SchemaKind::Plan => printed::<plan::Planned<'_>>(args.of),
        SchemaKind::Partition => printed::<plan::PlannedPartition<'_>>(args.of),
        SchemaKind::Check => printed::<check::CheckedFiles<'_>>(args.of),
        SchemaKind::Compare => printed::<compare::PrintedComparison<'_>>(args.of),
        SchemaKind::Runs => printed::<runs::RunList<'_>>(args.of),
        SchemaKind::RunsShow => printed::<runs::RunDescription<'_>>(args.of),
        SchemaKind::StudyPlan => printed::<StudyForecast>(args.of),
        SchemaKind::StudyRuns => printed::<study::StudyResults<'_>>(args.of),
        SchemaKind::Verify => printed::<replay::VerifiedRun>(args.of),
        SchemaKind::WhatIf => printed::<replay::RetimedRun<'_>>(args.of),
        SchemaKind::Export => printed::<export::ExportedModel<'_>>(args.of),
        SchemaKind::Invert => printed::<InversionRecord>(args.of),
        SchemaKind::SingleTask => printed::<single_task::SingleTaskResults<'_>>(args.of),
        SchemaKind::Weights => printed::<weights::DescribedWeights<'_>>(args.of),
        SchemaKind::Fetch => printed::<fetch::FetchedEntries<'_>>(args.of),
        SchemaKind::FetchList => printed::<fetch::KnownDataSets>(args.of),
        SchemaKind::Methods => printed::<methods::DescribedMethods>(args.of),
        SchemaKind::Keys => printed::<keys::KnownKeys<'_>>(args.of),
        SchemaKind::Columns => printed::<columns::ExplainedFiles<'_>>(args.of),
        SchemaKind::Migrate => printed::<migrate::MigratedFiles<'_>>(args.of),
        SchemaKind::Doctor => printed::<doctor::MachineReport>(args.of),
        SchemaKind::Error => printed::<failure::PrintedError<'_>>(args.of),
    };
    print(&format!("{schema:#}\n"))?;
    Ok(Exit::Done)
}

/// Returns the schema of a document of this type, which a command prints.
fn printed<T: Document>(kind: SchemaKind) -> Value {
    let known = kind.to_possible_value();
    let name = known.as_ref().map_or("", |value| value.get_name());
    let title = known.as_ref().and_then(|value| value.get_help()).map(ToString::to_string);
    printed_schema(name, &title.unwrap_or_default(), T::CONTENT, DOCUMENT_FORMAT)
}
