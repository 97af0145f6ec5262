//! The command line: one file per command, results on stdout, everything else on stderr.
//!
//! Every command answers `Result<Exit, CliError>`; `CliError::exit`
//! is the one place where an error becomes a documented exit code.

mod check;
mod direct;
mod exit;
mod failure;
mod interrupt;
mod memory;
mod methods;
mod plan;
mod replay;
mod resume;
mod run;
mod tell;

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
    Direct(direct::DirectArgs),
    Resume(resume::ResumeArgs),
    Replay(replay::ReplayArgs),
    Methods(methods::MethodsArgs),
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
  fedcast replay runs/quickstart-… --verify    recompute a run and compare every event
  fedcast resume runs/quickstart-…             go on with a run that was killed
  fedcast methods show hgp                     what a method does, sends and keeps

Results go to stdout; progress and errors go to stderr.

{}",
        exit::TABLE
    )
}

/// Parses the arguments, runs the command, tells what went wrong, answers the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
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
        Command::Direct(args) => direct::execute(&args),
        Command::Resume(args) => resume::execute(&args),
        Command::Replay(args) => replay::execute(&args),
        Command::Methods(args) => methods::execute(&args),
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
