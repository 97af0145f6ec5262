//! `fedcast replay`: tables of a recorded run from its journal, or verification by recomputing.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::failure::{CliError, lacks_data};
use super::interrupt::interruptible;
use super::ranks::RankArgs;
use super::stderr::print_status;
use super::{Exit, OutputFormat, given, print, print_json, print_text};
use crate::document::Document;
use crate::experiment::assemble::{load, round_closing};
use crate::experiment::ranks::Ranks;
use crate::experiment::{
    self, DirectoryError, Replayed, Verified, VerifyError, VerifyOptions, hold_for_tables, names,
    read_manifest, what_if, what_if_scenario,
};
use crate::federation::{ClosingPolicy, Digests, EventSink};
use crate::files::Disk;
use crate::methods::Registry;
use crate::quantity::Round;
use crate::report::parquet::write_parquet;
use crate::report::tables::{TableFiles, copy_tables};
use crate::report::{Progress, Shared, Summary, Timing, final_table, retiming_table};
use crate::scenario::RecordSection;

/// Print the results of a recorded run, or recompute it and compare every event
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast replay runs/quickstart-1f2e3d4c-s1
  fedcast replay runs/quickstart-1f2e3d4c-s1 --verify --workers 1
  fedcast replay runs/quickstart-1f2e3d4c-s1 --verify --from-round 10
  fedcast replay runs/quickstart-1f2e3d4c-s1 --verify --set data.path=/data/photos
  fedcast replay runs/quickstart-1f2e3d4c-s1 --set time.preset=mobile --set links.preset=mobile

Without --verify nothing is computed: the journal is checked against its digests and the final
table is printed; -o writes the CSV tables again. With --verify the run is executed again and the
first event that differs is printed (exit code 10); the number of workers has no effect on events.
An interrupted run is compared up to its end. With --from-round only the events after the last
checkpoint before that round are computed; earlier ones are replayed from the journal. On another
machine, --set data.path=..., backbone.weights=... or cache.folder=... names the places there.

With --set and no --verify nothing is computed either: the recorded exchanges are timed again with
other links ([links]), speeds ([time]) or closing rules ([round]), and compared with the recorded
times. -o writes the tables that a run of the changed scenario would write. The command fails (exit
code 2) if other updates would be aggregated: with another cohort, or if an upload would become late
or be late no longer.")]
pub struct ReplayArgs {
    /// The run directory
    pub run: PathBuf,
    /// Execute the run again and compare it with the journal
    #[arg(long)]
    pub verify: bool,
    /// Compute only events after the last checkpoint before this round
    #[arg(long, value_name = "ROUND", requires = "verify", value_parser = clap::value_parser!(u32).range(1..))]
    pub from_round: Option<u32>,
    /// Key of [time], [links] or [round], or with --verify a place of inputs; may be repeated
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Worker threads of --verify [default: the recorded scenario's, else one per core]
    #[arg(long, value_name = "N", requires = "verify", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    #[command(flatten)]
    pub ranks: RankArgs,
    /// Folder to write the run's CSV tables to
    #[arg(short, long, value_name = "DIR", conflicts_with = "verify")]
    pub out: Option<PathBuf>,
    /// Print no progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Replays or verifies the run.
pub fn execute(args: &ReplayArgs, methods: &Registry) -> Result<Exit, CliError> {
    if args.ranks.mpi && !args.verify {
        return Err(CliError::Usage("--mpi needs --verify: without it nothing is computed".into()));
    }
    match args.verify {
        true => args.ranks.with_ranks(args.workers, methods, |ranks| verify(args, methods, ranks)),
        false if args.set.is_empty() => render(args, methods),
        false => retime(args, methods),
    }
}

fn render(args: &ReplayArgs, methods: &Registry) -> Result<Exit, CliError> {
    given::run_directory(&args.run)?;
    let manifest = read_manifest(&args.run)?;
    // Forward transfer needs a file that the scenario names, and the journal has no published numbers;
    // everything else is in it.
    let scenario = load(&args.run.join(names::SCENARIO), &[], methods);
    let (mut summary, closing, record) = match scenario {
        Ok(scenario) => (Summary::about(&scenario), round_closing(&scenario), scenario.record),
        Err(_) => {
            let summary = Summary::new(&manifest.scenario.name);
            (summary, ClosingPolicy::default(), RecordSection::default())
        }
    };
    summary.name.clone_from(&manifest.scenario.name);
    // Held until the tables are written.
    let _lock = args.out.as_deref().map(|out| hold_for_tables(out, &manifest)).transpose()?;
    let create = |out| TableFiles::create(out, &record, closing, &manifest.class_names);
    let mut tables = args.out.as_deref().map(create).transpose()?;
    let mut readers: Vec<&mut dyn EventSink> = vec![&mut summary];
    readers.extend(tables.as_mut().map(|tables| tables as &mut dyn EventSink));
    let replayed = experiment::replay(&args.run, &mut readers);
    args.out.as_deref().map_or(Ok(()), |out| copy_with_journal(&args.run, out, &record))?;
    // The part before a cut or a damaged line is printed, too.
    if let Ok(Replayed { digests, .. }) = &replayed {
        summary.digests = Some(digests.clone());
    }
    match args.format {
        OutputFormat::Human => print_text(&final_table(&summary))?,
        OutputFormat::Json => print(&summary.to_json())?,
    }
    replayed?;
    Ok(Exit::Done)
}

/// Writes the tables that are not derived from the journal, and Parquet files if recorded.
fn copy_with_journal(run: &Path, out: &Path, record: &RecordSection) -> Result<(), DirectoryError> {
    copy_tables(run, out)?;
    if record.parquet { write_parquet(&Disk::default(), out) } else { Ok(()) }
}

/// Recorded and changed times of a run as JSON.
#[derive(Serialize, Document)]
pub(super) struct RetimedRun<'a> {
    /// Rounds that both runs closed, in order.
    rounds: Vec<RetimedRound>,
    #[document(of = "the recorded run")]
    recorded: &'a Timing,
    #[document(of = "the run with changed keys")]
    retimed: &'a Timing,
    #[document(of = "the run with changed keys")]
    digests: Digests,
}

/// Closing times of a round.
#[derive(Serialize, Document)]
struct RetimedRound {
    /// Round, from 1.
    round: u64,
    /// Virtual time at which the round closed in the recorded run.
    recorded_s: f64,
    /// Virtual time at which it closes with the changed keys.
    retimed_s: f64,
}

/// Outcome of a verification as JSON.
#[derive(Serialize, Document)]
pub(super) struct VerifiedRun {
    /// True: a difference is an error.
    identical: bool,
    /// Number of equal entries.
    entries: u64,
    /// True if the recorded run was interrupted there.
    partial: bool,
    /// Entries before the checkpoint, which were not computed.
    replayed: u64,
    #[document(of = "both runs")]
    digests: Digests,
}

/// Times the recorded exchanges again with the changed keys and prints the comparison.
fn retime(args: &ReplayArgs, methods: &Registry) -> Result<Exit, CliError> {
    given::run_directory(&args.run)?;
    let manifest = read_manifest(&args.run)?;
    let mut recorded = Timing::default();
    experiment::replay(&args.run, &mut [&mut recorded])?;
    // These tables are not those of the run, whose directory therefore cannot take them. The lock is held until they
    // are written.
    let same = args.out.as_ref().is_some_and(|out| *out == args.run);
    if same {
        let what =
            "-o names the recorded run, whose tables these are not\n  help: name another folder";
        return Err(CliError::Usage(what.to_string()));
    }
    let _lock = args.out.as_deref().map(|out| hold_for_tables(out, &manifest)).transpose()?;
    let retimed = Shared::new(Timing::default());
    let scenario = what_if_scenario(&args.run, &args.set, methods)?;
    let (closing, record) = (round_closing(&scenario), scenario.record);
    let mut readers: Vec<Box<dyn EventSink>> = vec![Box::new(retimed.clone())];
    if let Some(out) = &args.out {
        readers.push(Box::new(TableFiles::create(out, &record, closing, &manifest.class_names)?));
    }
    let digests = what_if(&args.run, &args.set, methods, readers)?;
    args.out.as_deref().map_or(Ok(()), |out| copy_with_journal(&args.run, out, &record))?;
    let retimed = retimed.lock();
    match args.format {
        OutputFormat::Human => {
            print_text(&retiming_table(&recorded, &retimed))?;
            print(&format!("digests     {digests}\n"))?;
        }
        OutputFormat::Json => {
            let both = |(round, then): (&Round, &f64)| {
                let retimed_s = *retimed.closed_s.get(round)?;
                let round = u64::from(round.0) + 1;
                Some(RetimedRound { round, recorded_s: *then, retimed_s })
            };
            let rounds = recorded.closed_s.iter().filter_map(both).collect();
            print_json(&RetimedRun { rounds, recorded: &recorded, retimed: &retimed, digests })?;
        }
    }
    Ok(Exit::Done)
}

/// Adds advice to an error about missing data: the option that gives their new place.
fn with_advice(error: VerifyError) -> CliError {
    if !matches!(&error, VerifyError::Run(run) if lacks_data(run)) {
        return error.into();
    }
    let help = "if the data moved, name their place with --set data.path=...".to_owned();
    CliError::Advised { error: Box::new(error), help }
}

fn verify(args: &ReplayArgs, methods: &Registry, ranks: Option<Ranks>) -> Result<Exit, CliError> {
    given::run_directory(&args.run)?;
    let interrupt = interruptible();
    let progress: Option<Box<dyn EventSink>> = match args.quiet {
        true => None,
        false => Some(Box::new(Progress::on_stderr())),
    };
    let (workers, from_round) = (args.workers, args.from_round);
    let places = args.set.clone();
    let options = VerifyOptions { workers, ranks, from_round, places };
    let verified = experiment::verify(&args.run, methods, options, progress, interrupt.clone())
        .map_err(with_advice)?;
    let Verified { entries, digests, partial, replayed, notices } = verified;
    notices.iter().for_each(|notice| print_status(notice));
    if interrupt.is_requested() {
        print_status(&format!("interrupted after {entries} equal entries"));
        return Ok(Exit::Interrupted);
    }
    match args.format {
        OutputFormat::Human => {
            let so_far = if partial { " (the recorded run was interrupted there)" } else { "" };
            let known = match replayed {
                0 => String::new(),
                replayed => format!(" ({replayed} of them before the checkpoint)"),
            };
            print(&format!(
                "identical: {entries} entries{so_far}{known}\nevents   {}\nnumbers  {}\n",
                digests.events, digests.numbers
            ))?;
        }
        OutputFormat::Json => {
            print_json(&VerifiedRun { identical: true, entries, partial, replayed, digests })?;
        }
    }
    Ok(Exit::Done)
}
