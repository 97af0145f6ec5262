//! The command line: one file per command, results on stdout, everything else on stderr.
//!
//! Every command returns `Result<Exit, CliError>`; each error has its exit code
//! ([`crate::exit::CommandError`]).

mod advice;
mod check;
mod columns;
mod compare;
mod doctor;
mod estimate;
mod export;
mod failure;
mod fetch;
mod fork;
mod given;
mod interrupt;
mod invert;
mod memory;
mod methods;
mod migrate;
mod new;
mod output;
mod plan;
mod printed;
mod ranks;
mod reference;
mod replay;
mod report;
mod resume;
mod run;
mod run_document;
mod runs;
mod single_task;
mod stderr;
mod study;
mod weights;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use advice::{advice, understood, wants_json};
use failure::{CliError, print_json_error};
pub use memory::ReportingAllocator;
use output::{OutputFormat, print, print_text};
use printed::print_json;
use stderr::print_status;

pub use crate::exit::Exit;
use crate::exit::TABLE;
use crate::experiment::keep_freed_memory;
use crate::methods::Registry;
use crate::numerics::denormals;
use crate::numerics::vectors::Vectors;
use crate::report::screen;

#[derive(Debug, Parser)]
#[command(
    name = "fedcast",
    version,
    about = "Simulates federated class-incremental learning: exact bytes, virtual time, bit-for-bit replay",
    after_help = after_help(),
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::NewArgs),
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Migrate(migrate::MigrateArgs),
    Plan(plan::PlanArgs),
    Study(study::StudyArgs),
    SingleTask(single_task::SingleTaskArgs),
    Resume(resume::ResumeArgs),
    Fork(fork::ForkArgs),
    Replay(replay::ReplayArgs),
    Compare(compare::CompareArgs),
    Report(report::ReportArgs),
    Runs(runs::RunsArgs),
    Methods(methods::MethodsArgs),
    Keys(reference::keys::KeysArgs),
    Columns(columns::ColumnsArgs),
    Export(export::ExportArgs),
    Invert(invert::InvertArgs),
    Fetch(fetch::FetchArgs),
    Weights(weights::WeightsArgs),
    Doctor(doctor::DoctorArgs),
    Schema(reference::schema::SchemaArgs),
    Completions(reference::completions::CompletionsArgs),
    Man(reference::man::ManArgs),
}

impl Command {
    fn execute(self, methods: &Registry) -> Result<Exit, CliError> {
        match self {
            Command::New(args) => new::execute(&args, methods),
            Command::Run(args) => run::execute(&args, methods),
            Command::Check(args) => check::execute(&args, methods),
            Command::Migrate(args) => migrate::execute(&args),
            Command::Plan(args) => plan::execute(&args, methods),
            Command::Study(args) => study::execute(&args, methods),
            Command::SingleTask(args) => single_task::execute(&args, methods),
            Command::Resume(args) => resume::execute(&args, methods),
            Command::Fork(args) => fork::execute(&args, methods),
            Command::Replay(args) => replay::execute(&args, methods),
            Command::Compare(args) => compare::execute(&args, methods),
            Command::Report(args) => report::execute(&args, methods),
            Command::Runs(args) => runs::execute(&args, methods),
            Command::Methods(args) => methods::execute(&args, methods),
            Command::Columns(args) => columns::execute(&args),
            Command::Export(args) => export::execute(&args, methods),
            Command::Invert(args) => invert::execute(&args, methods),
            Command::Fetch(args) => fetch::execute(&args),
            Command::Weights(args) => weights::execute(&args),
            Command::Keys(args) => reference::keys::execute(&args, methods),
            Command::Doctor(args) => doctor::execute(&args),
            Command::Schema(args) => reference::schema::execute(&args, methods),
            Command::Completions(args) => reference::completions::execute(&args),
            Command::Man(args) => reference::man::execute(&args),
        }
    }
}

fn after_help() -> String {
    format!(
        "Examples:
  fedcast run scenarios/quickstart.toml        train ten clients, in about 15 seconds
  fedcast plan scenarios/quickstart.toml       predict its bytes, time and jobs without training
  fedcast study scenarios/studies/scale.study.toml   run many scenarios from one file
  fedcast replay runs/quickstart-… --verify    recompute a run and compare every event
  fedcast resume runs/quickstart-…             resume a run from its last checkpoint
  fedcast fork runs/a --after-task 3 --set …   continue from there with other settings
  fedcast compare runs/a runs/b                compare settings, metrics and bytes of runs
  fedcast report studies/scale                 write a page with tables and plots
  fedcast runs                                 list the runs below this folder
  fedcast new a.toml                           write a commented scenario
  fedcast migrate a.toml                       rename keys and values of an earlier schema
  fedcast keys                                 list the keys of scenarios
  fedcast keys client                          explain the keys of a section
  fedcast methods show hgp                     explain a method, its messages and its state
  fedcast fetch cifar100                       download a data set or weights by name
  fedcast weights model.safetensors            describe a weights file and how to use it
  fedcast help columns                         explain the columns of a run's files
  fedcast doctor                               show CPU, memory, GPUs, caches and disk

Environment:
  COLUMNS              width of tables and texts [default: the terminal's; no bound in a file or pipe]
  FEDCAST_ARITHMETIC   vector instructions: portable, avx2 or avx512, at most those of this
                       machine; all give the same bits [default: the widest]
  FEDCAST_CACHE        folder of fedcast's caches (measured costs, fetched data)

Results go to stdout; progress and errors go to stderr.

{}",
        TABLE
    )
}

/// Runs a command with the methods of fedcast and returns the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    main_with(arguments, &Registry::builtin())
}

/// Runs a command with the methods of a program and returns the exit code.
///
/// Parses the arguments, of which the first is the program, and prints the command's error if any. Every command knows
/// the methods of the registry. A study starts this program again for each of its runs, with arguments of `fedcast run`,
/// so that a program calls this function with its own arguments, whatever they are:
///
/// ```no_run
/// use fedcast::prelude::*;
///
/// fn main() -> std::process::ExitCode {
///     let methods = Registry::builtin(); // .with(...) adds methods
///     fedcast::cli::main_with(std::env::args_os(), &methods).into()
/// }
/// ```
pub fn main_with(arguments: impl IntoIterator<Item = OsString>, methods: &Registry) -> Exit {
    keep_freed_memory();
    let given: Vec<OsString> = arguments.into_iter().collect();
    // An argument that is not UTF-8 is a path; no short form applies to it.
    let words: Option<Vec<String>> =
        given.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let words = words.map(understood).unwrap_or_default();
    let json = wants_json(&words);
    let parsed = match words.is_empty() {
        true => Cli::try_parse_from(given),
        false => Cli::try_parse_from(&words),
    };
    screen::follow_terminal();
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &words, json),
    };
    if !json && !denormals::are_kept() {
        print_status(
            "warning: a library in this process flushes denormal numbers to zero: numbers differ from other machines",
        );
    }
    let answer = Vectors::from_environment().map_err(|error| CliError::Usage(error.to_string()));
    let answer = answer.and_then(|_| cli.command.execute(methods));
    answer.unwrap_or_else(|error| {
        if json {
            error.print_json()
        } else {
            error.print()
        }
        error.exit_code()
    })
}

/// Prints requested help, or the error of a wrong command line with advice.
fn refuse(error: &clap::Error, words: &[String], json: bool) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Done;
    }
    let advice = advice(error, words);
    if json {
        let text = error.to_string();
        let message = text.split("\n\n").next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let advised = advice.map(|advice| format!("{message}; {advice}"));
        print_json_error(Exit::Usage, &advised.unwrap_or_else(|| message.to_owned()), &[]);
        return Exit::Usage;
    }
    let _ = error.print();
    if let Some(advice) = advice {
        print_status(&format!("\n  hint: {advice}"));
    }
    Exit::Usage
}
