//! `fedcast run`: execution of a scenario into a run directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::estimate::estimate_line;
use super::failure::{CliError, color, placed, placed_run};
use super::interrupt::interruptible;
use super::ranks::RankArgs;
use super::run_document::print_document;
use super::stderr::{print_status, print_styled};
use super::{Exit, OutputFormat, fetch, print, print_text, resume, single_task};
use crate::data::show_loading;
use crate::experiment::assemble::divide;
use crate::experiment::ranks::{ComputeResources, Ranks};
use crate::experiment::{
    DirectoryError, DirectoryState, Origin, Provenance, ResumeOptions, Run, RunDirectory, RunError,
    RunOptions, default_directory, inspect_directory, restore_scenario,
};
use crate::federation::{EndReason, EventSink, FederationError, Interrupt, SinkError};
use crate::fetch::Settings;
use crate::files::shell_word;
use crate::methods::Registry;
use crate::report::words::workers_word;
use crate::report::{self, Executed, Progress, final_table};
use crate::scenario::{Loaded, Override, Scenario, ScenarioError};

/// Run a scenario: train the federation, record every event, print the results
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast run scenarios/quickstart.toml
  fedcast run scenarios/quickstart.toml --seed 7 --set method.rebalance=none
  fedcast run scenarios/quickstart.toml --resume       start or resume; for job scripts
  fedcast run a.toml --set federation.clients=100 --set participation.fraction=0.1 -o runs/tenth
  mpirun -n 4 fedcast run a.toml --mpi                 one run by four processes

--set takes the dotted path of a key and a TOML value; a bare word is a string. The number of
workers changes only the wall time of a run. Ctrl-C, SIGTERM and SIGHUP end a run between two
events: the journal stays valid and the exit code is 130. `fedcast resume DIR`, or the same command
with --resume, continues an interrupted or killed run from its last checkpoint. An existing run,
complete or not, is never computed again or replaced without --force (exit code 4). A run in which
no update was aggregated ends with exit code 7.")]
pub struct RunArgs {
    /// The scenario file
    pub file: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Worker threads that train clients [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// The run directory [default: runs/<name>-<hash>-s<seed>]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace an existing run in the run directory, of this or another scenario
    #[arg(long)]
    pub force: bool,
    /// Start the run or resume it from its last checkpoint; does nothing if it is complete
    #[arg(long, conflicts_with = "force")]
    pub resume: bool,
    /// Train every client task alone first, as `fedcast single-task` does, and write DIR-single-task.csv
    #[arg(long)]
    pub single_task: bool,
    /// Download data and weights that the scenario names and that are missing
    #[arg(long)]
    pub fetch: bool,
    #[command(flatten)]
    pub ranks: RankArgs,
    /// Print no progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Changes to a scenario from the command line.
#[derive(Clone, Debug, Default, Args)]
pub struct Overrides {
    /// Override of a key of the scenario; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Override of seed.run; partition and class order use it, too, unless they have their own seeds
    #[arg(long, value_name = "N", value_parser = seed)]
    pub seed: Option<u64>,
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a seed is a whole number, such as 7".to_owned())
}

impl Overrides {
    /// Returns all overrides as `path=value`, in the order in which they apply.
    pub fn all(&self) -> Vec<String> {
        let mut all = self.set.clone();
        all.extend(self.seed.map(|seed| format!("seed.run={seed}")));
        all
    }
}

/// Reads a scenario and, unless `quiet`, prints notes on keys that have no effect for its method.
fn load(
    file: &Path,
    overrides: &Overrides,
    methods: &Registry,
    quiet: bool,
) -> Result<Loaded, ScenarioError> {
    let overrides: Vec<Override> = overrides.all().iter().map(Override::new).collect();
    let loaded = Scenario::load(file, &overrides, methods)?;
    if !quiet {
        loaded.notes().iter().for_each(|note| print_styled(&note.render_note(color())));
    }
    Ok(loaded)
}

/// Runs the scenario, alone or with other ranks.
pub fn execute(args: &RunArgs, methods: &Registry) -> Result<Exit, CliError> {
    args.ranks.with_ranks(args.workers, methods, |ranks| begin(args, methods, ranks))
}

fn begin(args: &RunArgs, methods: &Registry, ranks: Option<Ranks>) -> Result<Exit, CliError> {
    let loaded = load(&args.file, &args.overrides, methods, args.quiet)?;
    let mut scenario = loaded.scenario.clone();
    if args.fetch {
        // An impossible partition is reported before weights are fetched.
        divide(&scenario).map_err(|error| placed(&loaded, error.into()))?;
        let settings = Settings { progress: !args.quiet, ..Settings::from_env() };
        for name in scenario.names() {
            fetch::fetch_one(&name, &settings, args.quiet)?;
        }
    }
    let run = args.out.clone().unwrap_or_else(|| default_directory(&scenario));
    if let Some(exit) = take_up(args, methods, &ranks, &run, &scenario)? {
        return Ok(exit);
    }
    if args.single_task {
        let path = single_task::table_path(&run);
        let lines = single_task::into_file(&scenario, methods, args.workers, &path, args.quiet)?;
        // Absolute, because a replay may be called from another folder.
        scenario.record.single_task = Some(std::path::absolute(&path).unwrap_or(path));
        scenario.record.trained_alone = lines.into();
    }
    let provenance = provenance(&args.overrides, Origin::of(&args.file));
    let (workers, out) = (args.workers, args.out.clone());
    let options = RunOptions { workers, ranks, out, force: args.force, provenance };
    show_loading(!args.quiet);
    let run = Run::prepare(&scenario, methods, &options);
    let run = run.map_err(|error| placed_run(&loaded, error))?;
    drive(interruptible(), run, &scenario, 0, methods, args.quiet, args.format)
}

/// Returns the command line, overrides and origin of a run, for its manifest.
pub(super) fn provenance(overrides: &Overrides, origin: Option<Origin>) -> Provenance {
    let words = std::env::args_os().skip(1);
    let command = words.map(|word| word.to_string_lossy().into()).collect();
    Provenance { command, overrides: overrides.all(), origin, requires: None }
}

/// Resumes, reports or refuses a run that exists in the directory, by `--resume` and `--force`.
///
/// Returns `None` if the run starts from the beginning.
fn take_up(
    args: &RunArgs,
    methods: &Registry,
    ranks: &Option<Ranks>,
    path: &Path,
    scenario: &Scenario,
) -> Result<Option<Exit>, CliError> {
    match inspect_directory(path, &scenario.hash())? {
        _ if args.force => Ok(None),
        DirectoryState::Unfinished(_) if args.resume => {
            restore_scenario(path, scenario)?;
            let resources = ComputeResources { workers: args.workers, ranks: ranks.clone() };
            let options = ResumeOptions { resources, ..ResumeOptions::default() };
            resume::go_on(path, methods, options, args.quiet, args.format).map(Some)
        }
        DirectoryState::Done if args.resume => {
            // Removes files of a process that was killed while it began to replace the run; a failure is harmless.
            let _ = RunDirectory::reopen(path);
            print_status(&format!("{} is complete; nothing is left to compute", path.display()));
            resume::print_results(path, args.format).map(Some)
        }
        stands => Ok(stands.check_can_begin(path).map(|()| None)?),
    }
}

/// Executes a prepared run with its readers and prints the results.
///
/// The first `replayed` entries of its journal are those of the run that is resumed or forked.
pub(super) fn drive(
    interrupt: Interrupt,
    run: Run,
    scenario: &Scenario,
    replayed: u64,
    methods: &Registry,
    quiet: bool,
    format: OutputFormat,
) -> Result<Exit, CliError> {
    let workers = run.workers();
    let into = run.directory().path().to_owned();
    if !quiet {
        let word = workers_word(workers);
        let others: usize = run.ranks().iter().skip(1).map(|rank| rank.workers).sum();
        let roster = match run.ranks().len() {
            0 | 1 => String::new(),
            ranks => format!(", {others} more on {} other ranks", ranks - 1),
        };
        print_status(&format!(
            "{}: {workers} {word}{roster}, into {}",
            scenario.name,
            into.display()
        ));
    }
    for note in run.notes() {
        print_status(&format!("note: {note}"));
    }
    let (cache, steps) = (run.cache(), run.server_steps());
    let mut readers: Vec<Box<dyn EventSink>> = Vec::new();
    if !quiet {
        let progress = Progress::on_stderr().after(replayed);
        readers.push(Box::new(progress.watching(Arc::clone(&cache), steps)));
    }
    let ended = report::execute(run, scenario, replayed, readers, interrupt);
    for notice in cache.notices() {
        print_status(&format!("warning: {notice}"));
    }
    let Executed { finished, directory, summary } = ended.map_err(|error| advised(error, &into))?;
    match format {
        OutputFormat::Human => {
            print_text(&final_table(&summary))?;
            let took = summary.wall.as_ref().map(|wall| wall.total_s).filter(|_| replayed == 0);
            let whole = took.filter(|_| finished.reason == EndReason::Done);
            if let Some(line) =
                whole.and_then(|took| estimate_line(scenario, methods, workers, took))
            {
                print(&line)?;
            }
            print(&format!("directory   {}\n", directory.path().display()))?;
        }
        OutputFormat::Json => {
            print_document(directory.path(), &scenario.hash(), &summary.to_json())?
        }
    }
    Ok(match finished.reason {
        EndReason::Done if summary.trained_nothing() => Exit::Training,
        EndReason::Done => Exit::Done,
        EndReason::Interrupted => {
            let path = shell_word(directory.path());
            print_status(&format!("interrupted; resume with: fedcast resume {path}"));
            Exit::Interrupted
        }
        EndReason::Aborted => Exit::Unexpected,
    })
}

/// Adds advice to the error of a run that could not be recorded; other errors stay as they are.
fn advised(error: RunError, run: &Path) -> CliError {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let source = match &error {
        RunError::Federation(FederationError::Sink(SinkError::Io(source)))
        | RunError::Directory(DirectoryError::Write { source, .. }) => source,
        _ => return error.into(),
    };
    let remedy = match source.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => "free disk space",
        _ => "make the folder writable",
    };
    let help = format!("{remedy}, then resume: fedcast resume {}", shell_word(run));
    CliError::Advised { error: Box::new(error), help }
}
