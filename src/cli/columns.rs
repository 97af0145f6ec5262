//! `fedcast columns`: what every column of every file of a run means.

use clap::Args;

use super::failure::CliError;
use super::{Exit, Format, print};
use crate::report::dictionary::{RunFile, dictionary, files};
use crate::study;

/// Explain the files of runs and studies: every column, its type, unit and meaning
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast columns                     every file
  fedcast columns rounds.csv          one of them
  fedcast columns study/rounds.csv    a file of a study, beside its runs; paired.csv and table.csv are such, too
  fedcast columns --format json       for programs: name, about, columns with name, type, unit, meaning

`fedcast help columns` prints the same as `fedcast columns`. Rounds, tasks, phases and periods count
from 1 in every table; clients, classes and head rows have their numbers, from 0, as in scenarios
and data sets. Only events.jsonl, the journal, counts rounds and tasks from 0.")]
pub struct ColumnsArgs {
    /// Names of files, such as rounds.csv [default: all]
    pub files: Vec<String>,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Prints the dictionary, or a part of it.
pub fn execute(args: &ColumnsArgs) -> Result<Exit, CliError> {
    let all: Vec<RunFile> = files().into_iter().chain(study::files()).collect();
    let asked: Vec<RunFile> = match args.files.is_empty() {
        true => all,
        false => args.files.iter().map(|name| find(&all, name)).collect::<Result<_, _>>()?,
    };
    match args.format {
        Format::Human => print(&dictionary(&asked))?,
        Format::Json => {
            let text = serde_json::to_string_pretty(&asked)
                .map_err(|error| CliError::Unexpected(error.to_string()))?;
            print(&format!("{text}\n"))?;
        }
    }
    Ok(Exit::Done)
}

/// A file by its name, with or without its extension.
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
            CliError::Usage(format!(
                "there is no file `{name}` of runs or studies; there are {}",
                names.join(", ")
            ))
        })
}
