//! The command line: one file per command, results on stdout, everything else on stderr.
//!
//! Every command answers `Result<Exit, CliError>`; `CliError::exit`
//! is the one place where an error becomes a documented exit code.

mod check;
mod columns;
mod compare;
mod direct;
mod estimate;
mod exit;
mod export;
mod failure;
mod fetch;
mod fork;
mod interrupt;
mod memory;
mod methods;
mod plan;
mod replay;
mod report;
mod resume;
mod run;
mod runs;
mod study;
mod tell;
mod weights;

use std::ffi::OsString;
use std::io::Write;

use clap::{Parser, Subcommand, ValueEnum};

pub use exit::Exit;
use failure::CliError;
pub use memory::Memory;

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
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Plan(plan::PlanArgs),
    Study(study::StudyArgs),
    Direct(direct::DirectArgs),
    Resume(resume::ResumeArgs),
    Fork(fork::ForkArgs),
    Replay(replay::ReplayArgs),
    Compare(compare::CompareArgs),
    Report(report::ReportArgs),
    Runs(runs::RunsArgs),
    Methods(methods::MethodsArgs),
    Columns(columns::ColumnsArgs),
    Export(export::ExportArgs),
    Fetch(fetch::FetchArgs),
    Weights(weights::WeightsArgs),
}

/// How results are written to stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables for people.
    #[default]
    Human,
    /// One JSON document.
    Json,
}

fn after_help() -> String {
    format!(
        "Examples:
  fedcast run scenarios/quickstart.toml        a federation of ten clients, in about 15 seconds
  fedcast plan scenarios/quickstart.toml       its bytes, time and jobs, without computing it
  fedcast study scenarios/studies/scale.study.toml   many runs from one file, with tables
  fedcast replay runs/quickstart-… --verify    recompute a run and compare every event
  fedcast resume runs/quickstart-…             go on with a run that was killed
  fedcast fork runs/a --after-task 3 --set …   go on from there with other settings
  fedcast compare runs/a runs/b                in what two runs differ, and who is better
  fedcast report studies/scale                 a page with its tables and plots
  fedcast runs                                 the runs below this folder
  fedcast methods show hgp                     what a method does, sends and keeps
  fedcast fetch cifar100                       a data set or weights by name
  fedcast weights model.safetensors            what a file of weights is, and how to use it
  fedcast help columns                         every column of every file of a run

Results go to stdout; progress and errors go to stderr.

{}",
        exit::TABLE
    )
}

/// Parses the arguments, runs the command, tells what went wrong, answers the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // What columns mean is what whoever asks for help with them wants, rather than the command's usage.
    let arguments = match &arguments[..] {
        [program, help, columns] if help == "help" && columns == "columns" => {
            vec![program.clone(), columns.clone()]
        }
        _ => arguments,
    };
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    let answer = match cli.command {
        Command::Run(args) => run::execute(&args),
        Command::Check(args) => check::execute(&args),
        Command::Plan(args) => plan::execute(&args),
        Command::Study(args) => study::execute(&args),
        Command::Direct(args) => direct::execute(&args),
        Command::Resume(args) => resume::execute(&args),
        Command::Fork(args) => fork::execute(&args),
        Command::Replay(args) => replay::execute(&args),
        Command::Compare(args) => compare::execute(&args),
        Command::Report(args) => report::execute(&args),
        Command::Runs(args) => runs::execute(&args),
        Command::Methods(args) => methods::execute(&args),
        Command::Columns(args) => columns::execute(&args),
        Command::Export(args) => export::execute(&args),
        Command::Fetch(args) => fetch::execute(&args),
        Command::Weights(args) => weights::execute(&args),
    };
    answer.unwrap_or_else(|error| {
        error.print();
        error.exit()
    })
}

/// Writes a result to stdout, without control characters. A reader that went away (`fedcast … | head`) is no error.
fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(tell::plain(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::Stdout(error))
        }
        _ => Ok(()),
    }
}
