//! `fedcast study`: many runs from one study file.

mod again;
mod results;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
pub(super) use results::StudyResults;

use super::estimate::Estimator;
use super::failure::CliError;
use super::interrupt::on_interrupt;
use super::stderr::print_status;
use super::{Exit, OutputFormat, print_json, print_text};
use crate::experiment::plan::Plan;
use crate::files::shell_word;
use crate::methods::Registry;
use crate::scenario::Scenario;
use crate::study::{
    Cell, Invalid, Only, Outcomes, PreparedCell, ProcessPool, Queue, Shard, ShardChoice,
    StopReason, Study, StudyDirectory, StudyError, StudyEvent, StudyForecast, StudyProgress,
    first_errors, notes, overrides, prepare, tables,
};

/// Run a study: a grid of changes to a scenario, each with several seeds
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast study scenarios/studies/scale.study.toml --plan        its costs, without running
  fedcast study scenarios/studies/scale.study.toml
  fedcast study scale.study.toml --only method=hgp,clients=10    one cell first
  fedcast study scale.study.toml --status                        progress; writes the tables again
  fedcast study scale.study.toml --retry-failed
  fedcast study scale.study.toml --shard 1/4                     on one of four machines

Every cell is a separate process with its own run directory. The same command continues a study
that was killed or interrupted: it skips finished runs and resumes unfinished ones. Neither --jobs
nor --shard changes a result. To merge the directories of several machines, copy one over the
other. Tables (cells.csv, rounds.csv, table.md, table.tex, paired.csv, ...) are written to the
study's directory. Exit codes: 5 cells failed, the others are done; 4 another process still runs
cells; 130 interrupted or stopped at a limit of the study, can be continued.")]
pub struct StudyArgs {
    /// The study file
    pub file: PathBuf,
    /// The study's directory [default: studies/<name>]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the costs of every cell and the cells that cannot run; run nothing
    #[arg(long, conflicts_with_all = ["status", "retry_failed"])]
    pub plan: bool,
    /// With --plan: measure costs on this machine, a few seconds for each method and network
    #[arg(long, requires = "plan")]
    pub estimate: bool,
    /// Print the progress of the study and write its tables again; run nothing
    #[arg(long, conflicts_with = "retry_failed")]
    pub status: bool,
    /// Cells to run, such as method=hgp,clients=10 or seed=2 [default: all]; may be repeated
    #[arg(long, value_name = "AXIS=ARM,...")]
    pub only: Vec<String>,
    /// Run failed cells again
    #[arg(long)]
    pub retry_failed: bool,
    /// Part of the cells to run, such as 2/8, or `env` for the task of a SLURM job array
    #[arg(long, value_name = "K/N")]
    pub shard: Option<String>,
    /// Number of simultaneous processes [default: the study's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Override of a key of the scenario in all cells; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Print no progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Time budget of a trial of --estimate.
const TRIAL: Duration = Duration::from_secs(3);

/// Interval at which tables are written again while cells finish.
const REWRITE: Duration = Duration::from_secs(10);

/// A study with its directory, its cells and the options of this call.
struct Session<'a> {
    args: &'a StudyArgs,
    study: Study,
    directory: StudyDirectory,
    cells: Vec<PreparedCell>,
    /// One flag per cell: true if `--only` and the shard select it.
    wanted: Vec<bool>,
    outcomes: Outcomes,
    pool: ProcessPool,
    methods: &'a Registry,
}

/// Runs the study, plans it, or prints its progress.
pub fn execute(args: &StudyArgs, methods: &Registry) -> Result<Exit, CliError> {
    let study = Study::load(&args.file)?;
    let only = Only::parse(&args.only, &study)?;
    let shard = shard(args, &study)?;
    let root = args.out.clone().unwrap_or_else(|| study.default_directory());
    let directory = StudyDirectory::new(root);
    directory.refuse_run()?;
    let overrides = overrides(&study, &args.set)?;
    let (cells, mut invalid) = prepare(&study, &directory, &overrides, methods);
    let is_wanted =
        |cell: &Cell| only.has(&study, cell) && shard.is_none_or(|shard| shard.has(cell));
    let wanted: Vec<bool> = cells.iter().map(|prepared| is_wanted(&prepared.cell)).collect();
    invalid.retain(|invalid| is_wanted(&invalid.cell));
    let outcomes = Outcomes::read(&study, &cells, &directory, methods);
    let pool = ProcessPool::of(&study, &cells, args.jobs);
    let session = Session { args, study, directory, cells, wanted, outcomes, pool, methods };
    if args.plan {
        return session.plan(&invalid);
    }
    // A mistake in any cell is reported before the other cells run.
    if let Some(error) = first_errors(&session.study, invalid) {
        return Err(error.into());
    }
    if args.status {
        tables::write(&session.study, &session.directory, &session.outcomes)?;
        return session.report(None);
    }
    session.run()
}

/// Returns the part of the cells that this process runs, if not all.
fn shard(args: &StudyArgs, study: &Study) -> Result<Option<Shard>, StudyError> {
    let asked = args.shard.as_deref().map(ShardChoice::parse).transpose();
    let asked = asked.map_err(|why| StudyError::Selection(format!("--shard: {why}")))?;
    match asked.or(study.run.shard) {
        None => Ok(None),
        Some(ShardChoice::Fixed(shard)) => Ok(Some(shard)),
        Some(ShardChoice::Environment) => {
            let found = Shard::of_slurm(|name| std::env::var(name).ok());
            let found = found.map_err(StudyError::Selection)?;
            // A study file with `shard = "env"` runs all cells outside a job array; `--shard env` is an error there.
            if found.is_none() && asked.is_some() {
                let what = "--shard env: this is no task of a SLURM job array (SLURM_ARRAY_TASK_ID and \
                            SLURM_ARRAY_TASK_COUNT are not set)\n  help: write --shard 1/4";
                return Err(StudyError::Selection(what.to_owned()));
            }
            Ok(found)
        }
    }
}

impl Session<'_> {
    fn plan(&self, invalid: &[Invalid]) -> Result<Exit, CliError> {
        let Session { study, cells, wanted, outcomes, pool, methods, .. } = self;
        let both = cells.iter().zip(&outcomes.all).zip(wanted);
        let chosen: Vec<_> = both.filter(|(_, wanted)| **wanted).map(|(both, _)| both).collect();
        let mut estimator = Estimator::new(self.args.estimate.then_some(TRIAL), false);
        let workers = pool.workers.and_then(|workers| u32::try_from(workers).ok());
        let mut estimate = |scenario: &Scenario, plan: &Plan| {
            estimator.estimate(scenario, plan, methods, workers).ok().flatten()
        };
        let outlook = StudyForecast::of(
            study,
            &chosen,
            invalid,
            &outcomes.pace(),
            &mut estimate,
            pool.jobs,
            methods,
        );
        match self.args.format {
            OutputFormat::Human => print_text(&outlook.to_text())?,
            OutputFormat::Json => print_json(&outlook)?,
        }
        Ok(if outlook.has_errors() { Exit::Scenario } else { Exit::Done })
    }

    fn run(mut self) -> Result<Exit, CliError> {
        self.outcomes.refuse_foreign(&self.directory, &self.wanted)?;
        let order = self.study.run.order;
        let retry = self.args.retry_failed;
        let queue =
            Queue::of(&self.cells, &self.outcomes, order, retry, &self.wanted, self.methods);
        let wanted = self.wanted.iter().filter(|wanted| **wanted).count();
        if !self.args.quiet {
            let (left, at) = (queue.cells.len(), self.directory.path().display());
            let jobs = self.pool.jobs.min(left);
            match left {
                0 => print_status(&format!(
                    "{}: none of {wanted} runs in {at} is left to run",
                    self.study.name
                )),
                left => print_status(&format!(
                    "{}: {left} of {wanted} runs left, {jobs} at a time, into {at}",
                    self.study.name
                )),
            }
        }
        let unused = notes(&self.study, &self.cells).len();
        if !self.args.quiet && unused > 0 {
            let (keys, are) = if unused == 1 { ("key", "is") } else { ("keys", "are") };
            print_status(&format!(
                "note: {unused} {keys} of its scenarios {are} not used or used in part; `fedcast check {}` says which",
                shell_word(&self.args.file)
            ));
        }
        // Written before anything runs, so that an unwritable directory is an error at once.
        tables::write(&self.study, &self.directory, &self.outcomes)?;
        on_interrupt(self.pool.stop.clone());
        let over = wanted - queue.cells.len();
        let jobs = self.pool.jobs;
        let pace = self.outcomes.pace();
        let (study, directory, outcomes) = (&self.study, &self.directory, &mut self.outcomes);
        let counts = (over, wanted);
        let mut progress =
            StudyProgress::new(study, &queue, directory, jobs, pace, counts, self.args.quiet);
        let mut written = Instant::now();
        let mut trouble = None;
        let halt = self.pool.execute(&queue.cells, directory, |news| {
            progress.show(news);
            // Read while other cells run, so that little is left to do at the end.
            if let StudyEvent::Ended(prepared, ..) = news {
                outcomes.refresh_one(&prepared.cell, directory);
            }
            if matches!(news, StudyEvent::Ended(..))
                && written.elapsed() >= REWRITE
                && trouble.is_none()
            {
                outcomes.refresh(directory);
                // Cells continue: an error of a table is reported when it is written at the end.
                trouble = tables::write(study, directory, outcomes).err();
                written = Instant::now();
            }
            Ok(())
        });
        progress.finish();
        let halt = halt?;
        outcomes.refresh(directory);
        tables::write(study, directory, outcomes)?;
        self.report(halt)
    }

    /// Prints the progress of the study and returns the exit code.
    fn report(&self, halt: Option<StopReason>) -> Result<Exit, CliError> {
        let outcomes = &self.outcomes;
        let wanted =
            || outcomes.all.iter().zip(&self.wanted).filter(|both| *both.1).map(|both| both.0);
        let words = ["done", "failed", "unfinished", "running", "waiting", "other scenario"];
        let count = |word: &str| wanted().filter(|outcome| outcome.state.word() == word).count();
        let counts: Vec<(&str, usize)> =
            words.iter().map(|word| (*word, count(word))).filter(|(_, n)| *n > 0).collect();
        let path = self.directory.path().display().to_string();
        match self.args.format {
            OutputFormat::Human => {
                let mut text = tables::MainTable::of(&self.study, outcomes).to_text();
                text.push('\n');
                text.push_str(&self.failures());
                let counts: Vec<String> =
                    counts.iter().map(|(word, n)| format!("{n} {word}")).collect();
                text.push_str(&format!("runs        {}\ndirectory   {path}\n", counts.join(", ")));
                print_text(&text)?;
            }
            OutputFormat::Json => {
                let study = &self.study.name;
                let runs = counts.into_iter().collect();
                let cells = wanted().map(|outcome| self.cell(outcome)).collect();
                print_json(&StudyResults { study, directory: path, runs, cells })?;
            }
        }
        // A limit reached when the last run ended leaves nothing to run.
        let halt = halt.filter(|_| count("waiting") + count("unfinished") > 0);
        let again = || format!("continue with: {}", again::command(self.args, count("failed") > 0));
        match halt {
            Some(StopReason::Interrupted) => print_status(&format!("interrupted; {}", again())),
            Some(StopReason::Wall) => {
                print_status(&format!("stopped at the limit of wall time; {}", again()))
            }
            Some(StopReason::Disk) => print_status(&format!(
                "stopped at the limit of disk space; free space or raise the limit, then {}",
                again()
            )),
            Some(StopReason::Error) => print_status(&format!(
                "stopped at the first failure, as `on_error` requests; {}",
                again()
            )),
            None => {}
        }
        let elsewhere = count("running");
        if elsewhere > 0 && !self.args.status {
            print_status(&format!(
                "another process still runs {elsewhere} of these runs; --status prints its progress"
            ));
        }
        Ok(match halt {
            Some(StopReason::Interrupted | StopReason::Wall | StopReason::Disk) => {
                Exit::Interrupted
            }
            _ if count("failed") > 0 => Exit::CellsFailed,
            _ if self.args.status => Exit::Done,
            // A child was interrupted from outside, or another process released a run before it began.
            _ if count("unfinished") + count("waiting") > 0 => Exit::Interrupted,
            // The runs that are left belong to another process.
            _ if elsewhere > 0 => Exit::NothingToDo,
            _ => Exit::Done,
        })
    }
}
