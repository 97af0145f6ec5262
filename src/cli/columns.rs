//! `fedcast columns`: description of every column of every file of a run.

use clap::Args;
use serde::Serialize;

use super::failure::CliError;
use super::{Exit, OutputFormat, print_json, print_text};
use crate::document::Document;
use crate::report::dictionary::{RunFile, dictionary, files};
use crate::scenario::reader::nearest;
use crate::study;

/// Explain the files of runs and studies: every column, its type, unit and meaning
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast columns                     every file
  fedcast columns rounds.csv          one file of a run
  fedcast columns study/rounds.csv    a file of a study, such as paired.csv or table.csv
  fedcast columns accuracy_seen       one column, in every file that has it
  fedcast columns --format json       name, about and columns with name, type, unit, meaning

`fedcast help columns` prints the same as `fedcast columns`. Tables count rounds, tasks, phases and
stages from 1; they number clients, classes and head rows from 0, as scenarios and data sets do.
Only the journal, events.jsonl, counts rounds and tasks from 0.")]
pub struct ColumnsArgs {
    /// File names, such as rounds.csv, or names of columns [default: all]
    pub files: Vec<String>,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Explained files as JSON.
#[derive(Serialize, Document)]
pub(super) struct ExplainedFiles<'a> {
    /// Files, in the order of the list.
    files: &'a [RunFile],
}

/// Prints the columns of all files or of the named ones.
pub fn execute(args: &ColumnsArgs) -> Result<Exit, CliError> {
    let all: Vec<RunFile> = files().into_iter().chain(study::files()).collect();
    let files: Vec<RunFile> = match args.files.is_empty() {
        true => all,
        false => {
            let found = args.files.iter().map(|name| find(&all, name));
            found.collect::<Result<Vec<_>, _>>()?.concat()
        }
    };
    match args.format {
        OutputFormat::Human => print_text(&dictionary(&files))?,
        OutputFormat::Json => print_json(&ExplainedFiles { files: &files })?,
    }
    Ok(Exit::Done)
}

/// Finds a file by its name, with or without its extension.
///
/// If there is none, finds the files with a column of this name, cut to it.
fn find(all: &[RunFile], name: &str) -> Result<Vec<RunFile>, CliError> {
    let stem = |file: &RunFile| file.name.split('.').next() == Some(name);
    let exact = all.iter().find(|file| file.name == name);
    let of_study = |file: &&RunFile| {
        let bare = file.name.strip_prefix("study/");
        bare.is_some_and(|bare| bare == name || bare.split('.').next() == Some(name))
    };
    let file =
        exact.or_else(|| all.iter().find(|file| stem(file))).or_else(|| all.iter().find(of_study));
    if let Some(file) = file {
        return Ok(vec![*file]);
    }
    let with_column: Vec<RunFile> = all.iter().filter_map(|file| cut_to(file, name)).collect();
    if !with_column.is_empty() {
        return Ok(with_column);
    }
    let columns = all.iter().flat_map(|file| file.columns).map(|column| column.name);
    let similar = nearest(name, all.iter().map(|file| file.name).chain(columns));
    let help = match (name.split('.').next(), similar) {
        (Some("slots"), _) => "`slots.csv` is called `client_tasks.csv` since format 2".to_owned(),
        (_, Some(word)) => format!("did you mean `{word}`?"),
        (_, None) => {
            let names: Vec<&str> = all.iter().map(|file| file.name).collect();
            format!("runs and studies have {}", names.join(", "))
        }
    };
    Err(CliError::Usage(format!("unknown file or column `{name}`\n  help: {help}")))
}

/// Returns a file with this column alone.
fn cut_to(file: &RunFile, name: &str) -> Option<RunFile> {
    let column = file.columns.iter().find(|column| column.name == name)?;
    Some(RunFile { columns: std::slice::from_ref(column), ..*file })
}
