//! `fedcast single-task`: training of every client task alone, the reference of forward transfer.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::failure::CliError;
use super::run::Overrides;
use super::stderr::print_status;
use super::{Exit, OutputFormat, print, print_json};
use crate::document::Document;
use crate::experiment::assemble::load;
use crate::experiment::{
    default_directory, single_task_accuracies, single_task_table, write_atomically,
};
use crate::methods::Registry;
use crate::scenario::{Scenario, SingleTaskLine};

/// Train every client task alone for one round, as the reference of forward transfer
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast single-task scenarios/studies/client-tasks.toml
  fedcast run scenarios/studies/client-tasks.toml --single-task        this table, then the run

For scenarios whose clients have their own tasks (tasks.arrival = \"client-tasks\"). Each client task
gets one round of local training by the scenario's method, from the initial model. Nothing is
aggregated or kept. The key `record.single_task` of a run names the table.")]
pub struct SingleTaskArgs {
    /// The scenario file
    pub file: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Worker threads that train clients [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// The table to write [default: runs/<name>-<hash>-s<seed>-single-task.csv]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// No progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Results of client tasks trained alone, as JSON.
#[derive(Serialize, Document)]
pub(super) struct SingleTaskResults<'a> {
    /// Client tasks with an accuracy.
    client_tasks: usize,
    /// Client tasks without test images, which are left out.
    untested_client_tasks: usize,
    /// Mean accuracy.
    #[document(unit = "share")]
    accuracy: Option<f64>,
    /// File of the table.
    table: &'a Path,
}

/// Trains the client tasks and writes the table.
pub fn execute(args: &SingleTaskArgs, methods: &Registry) -> Result<Exit, CliError> {
    let scenario = load(&args.file, &args.overrides.all(), methods)?;
    let path = args.out.clone().unwrap_or_else(|| table_path(&default_directory(&scenario)));
    let lines = into_file(&scenario, methods, args.workers, &path, args.quiet)?;
    let known: Vec<f64> = lines.iter().filter_map(|line| line.accuracy).collect();
    let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
    match args.format {
        OutputFormat::Human => {
            let mean = mean
                .map_or_else(String::new, |mean| format!(", mean accuracy {:.2} %", 100.0 * mean));
            let untested = match lines.len() - known.len() {
                0 => String::new(),
                without => format!("; {without} client tasks have no test images and are left out"),
            };
            print(&format!("{} client tasks trained alone{mean}{untested}\n", known.len()))?;
            print(&format!("table       {}\n", path.display()))?;
        }
        OutputFormat::Json => {
            print_json(&SingleTaskResults {
                client_tasks: known.len(),
                untested_client_tasks: lines.len() - known.len(),
                accuracy: mean,
                table: &path,
            })?;
        }
    }
    Ok(Exit::Done)
}

/// Returns the path of the table that belongs to the run in `directory`.
pub(super) fn table_path(directory: &Path) -> PathBuf {
    let mut path = directory.as_os_str().to_owned();
    path.push("-single-task.csv");
    path.into()
}

/// Trains the client tasks of a scenario alone and writes their table to `path`.
pub(super) fn into_file(
    scenario: &Scenario,
    methods: &Registry,
    workers: Option<u32>,
    path: &Path,
    quiet: bool,
) -> Result<Vec<SingleTaskLine>, CliError> {
    let report = |line: &SingleTaskLine| {
        if !quiet {
            let SingleTaskLine { stage, client, accuracy } = line;
            let accuracy_text = match accuracy {
                Some(accuracy) => format!("{:.2} %", 100.0 * accuracy),
                None => "no test images".to_owned(),
            };
            print_status(&format!("alone: stage {stage}, client {client}: {accuracy_text}"));
        }
    };
    let lines = single_task_accuracies(scenario, methods, workers, report)?;
    write_atomically(path, single_task_table(&lines).as_bytes())?;
    Ok(lines)
}
