//! `fedcast columns`: description of every column of every file of a run.

use clap::Args;

use super::failure::CliError;
use super::{Exit, OutputFormat, print};
use crate::report::dictionary::{RunFile, dictionary, files};
use crate::study;

/// Explain the files of runs and studies: every column, its type, unit and meaning
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast columns                     every file
  fedcast columns rounds.csv          one file of a run
  fedcast columns study/rounds.csv    a file of a study, such as paired.csv or table.csv
  fedcast columns --format json       name, about and columns with name, type, unit, meaning

`fedcast help columns` prints the same as `fedcast columns`. Tables count rounds, tasks, phases and
stages from 1; they number clients, classes and head rows from 0, as scenarios and data sets do.
Only the journal, events.jsonl, counts rounds and tasks from 0.")]
pub struct ColumnsArgs {
    /// File names, such as rounds.csv [default: all]
    pub files: Vec<String>,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Prints the columns of all files or of the named ones.
pub fn execute(args: &ColumnsArgs) -> Result<Exit, CliError> {
    let all: Vec<RunFile> = files().into_iter().chain(study::files()).collect();
    let asked: Vec<RunFile> = match args.files.is_empty() {
        true => all,
        false => args.files.iter().map(|name| find(&all, name)).collect::<Result<_, _>>()?,
    };
    match args.format {
        OutputFormat::Human => print(&dictionary(&asked))?,
        OutputFormat::Json => {
            let text = serde_json::to_string_pretty(&asked)
                .map_err(|error| CliError::Unexpected(error.to_string()))?;
            print(&format!("{text}\n"))?;
        }
    }
    Ok(Exit::Done)
}

/// Finds a file by its name, with or without its extension.
fn find(all: &[RunFile], name: &str) -> Result<RunFile, CliError> {
    let stem = |file: &RunFile| file.name.split('.').next() == Some(name);
    let exact = all.iter().find(|file| file.name == name);
    let of_study = |file: &&RunFile| {
        let bare = file.name.strip_prefix("study/");
        bare.is_some_and(|bare| bare == name || bare.split('.').next() == Some(name))
    };
    exact
        .or_else(|| all.iter().find(|file| stem(file)))
        .or_else(|| all.iter().find(of_study))
        .copied()
        .ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|file| file.name).collect();
            let help = match name.split('.').next() {
                Some("slots") => {
                    "`slots.csv` is called `client_tasks.csv` since format 2".to_owned()
                }
                _ => format!("runs and studies have {}", names.join(", ")),
            };
            CliError::Usage(format!("unknown file `{name}`\n  help: {help}"))
        })
}
