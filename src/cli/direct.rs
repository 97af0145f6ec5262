//! `fedcast direct`: trains every slot alone, for forward transfer.

use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::CliError;
use super::run::Overrides;
use super::stderr::print_status;
use super::{Exit, Format, print};
use crate::experiment::assemble::load;
use crate::experiment::{default_directory, direct, direct_table, write_atomically};
use crate::methods::Registry;
use crate::scenario::{DirectLine, Scenario};

/// Train every slot alone for one round: what forward transfer is measured against
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast direct scenarios/studies/slots.toml
  fedcast run scenarios/studies/slots.toml --direct        both at once

For scenarios whose clients have tasks of their own (tasks.arrival = \"powder\"). Each slot gets
one round of local training by the scenario's own method, from the model as it starts; nothing
else takes part and nothing is kept. `record.direct` of a run reads the table.")]
pub struct DirectArgs {
    /// The scenario file
    pub file: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Worker threads that train clients [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// The table [default: runs/<name>-<hash>-s<seed>-direct.csv]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// No progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Trains the slots and writes the table.
pub fn execute(args: &DirectArgs) -> Result<Exit, CliError> {
    let methods = Registry::builtin();
    let scenario = load(&args.file, &args.overrides.all(), &methods)?;
    let path = args.out.clone().unwrap_or_else(|| beside(&default_directory(&scenario)));
    let lines = into_file(&scenario, &methods, args.workers, &path, args.quiet)?;
    let known: Vec<f64> = lines.iter().filter_map(|line| line.accuracy).collect();
    let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
    match args.format {
        Format::Human => {
            let mean = mean
                .map_or_else(String::new, |mean| format!(", mean accuracy {:.2} %", 100.0 * mean));
            let untested = match lines.len() - known.len() {
                0 => String::new(),
                without => format!("; {without} slots have no test images and are left out"),
            };
            print(&format!("{} slots trained alone{mean}{untested}\n", known.len()))?;
            print(&format!("table       {}\n", path.display()))?;
        }
        Format::Json => {
            let told = serde_json::json!({
                "slots": known.len(),
                "untested_slots": lines.len() - known.len(),
                "accuracy": mean,
                "table": path.display().to_string(),
            });
            print(&format!("{told:#}\n"))?;
        }
    }
    Ok(Exit::Done)
}

/// The table of a run in this directory.
pub(super) fn beside(directory: &Path) -> PathBuf {
    let mut path = directory.as_os_str().to_owned();
    path.push("-direct.csv");
    path.into()
}

/// Trains the slots of a scenario alone and writes the table there.
pub(super) fn into_file(
    scenario: &Scenario,
    methods: &Registry,
    workers: Option<u32>,
    path: &Path,
    quiet: bool,
) -> Result<Vec<DirectLine>, CliError> {
    let told = |line: &DirectLine| {
        if !quiet {
            let DirectLine { period, client, accuracy } = line;
            let said = match accuracy {
                Some(accuracy) => format!("{:.2} %", 100.0 * accuracy),
                None => "no test images".to_owned(),
            };
            print_status(&format!("alone: period {period}, client {client}: {said}"));
        }
    };
    let lines = direct(scenario, methods, workers, told)?;
    write_atomically(path, direct_table(&lines).as_bytes())?;
    Ok(lines)
}
