//! `fedcast runs rm`: removal of runs.

use std::io::{BufRead, IsTerminal};

use super::RemoveArgs;
use super::table::RunRow;
use crate::cli::failure::CliError;
use crate::cli::stderr::{print_status, print_styled};
use crate::cli::{Exit, given, print};
use crate::experiment::{DirectoryError, RunDirectory};
use crate::quantity::Bytes;
use crate::results::{RunRecord, State};

/// Removes runs after confirmation; removes none unless all of them can be removed.
pub(super) fn remove(args: &RemoveArgs) -> Result<Exit, CliError> {
    let mut runs = Vec::new();
    for path in &args.runs {
        given::run_directory(path)?;
        let run = RunRecord::read(path)?;
        if State::of(&run) == State::Running {
            return Err(DirectoryError::InUse(path.clone()).into());
        }
        runs.push(run);
    }
    if !args.yes && !confirmed(&runs)? {
        print_status("nothing was removed");
        return Ok(Exit::NothingToDo);
    }
    for run in &runs {
        let whole = RunDirectory::reopen(&run.path)?.delete()?;
        let path = run.path.display();
        let rest = if whole { "" } else { "; files that do not belong to a run are kept" };
        print(&format!("removed {path}{rest}\n"))?;
    }
    Ok(Exit::Done)
}

fn confirmed(runs: &[RunRecord]) -> Result<bool, CliError> {
    for run in runs {
        let row = RunRow::of(run);
        let (path, method) = (run.path.display(), &run.manifest.method);
        let seed = run.manifest.seeds.run;
        let (state, size) = (State::of(run), Bytes(row.size_bytes));
        print_status(&format!("{path}  {method}, seed {seed}, {state}, {size}"));
    }
    if !std::io::stdin().is_terminal() {
        let what = "cannot ask for confirmation: stdin is no terminal\n  help: --yes removes without a question";
        return Err(CliError::Usage(what.to_owned()));
    }
    print_styled(if runs.len() == 1 { "remove it? [y/N] " } else { "remove them? [y/N] " });
    let unread = |error: std::io::Error| CliError::Unexpected(format!("no answer: {error}"));
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(unread)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
