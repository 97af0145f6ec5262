//! `fedcast runs rm`: removal of runs.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use super::RemoveArgs;
use super::table::RunRow;
use crate::cli::failure::CliError;
use crate::cli::stderr::{print_status, print_styled};
use crate::cli::{Exit, given, print};
use crate::experiment::{DirectoryError, RunDirectory, is_held};
use crate::quantity::Bytes;
use crate::results::{ResultsError, RunRecord, State};

/// Run to remove, as the question shows it.
struct Removal {
    path: PathBuf,
    shown: String,
}

/// Removes runs after confirmation; removes none unless all of them can be removed.
pub(super) fn remove(args: &RemoveArgs) -> Result<Exit, CliError> {
    let mut runs: Vec<Removal> = Vec::new();
    for path in &args.runs {
        given::run_directory(path)?;
        // A run may be named twice, and in two ways.
        let place = |path: &Path| path.canonicalize().ok();
        if runs.iter().any(|known| place(&known.path) == place(path)) {
            continue;
        }
        runs.push(Removal { path: path.clone(), shown: shown(path)? });
    }
    if !args.yes && !confirmed(&runs)? {
        print_status("nothing was removed");
        return Ok(Exit::NothingToDo);
    }
    for Removal { path, .. } in &runs {
        let whole = RunDirectory::reopen(path)?.delete()?;
        let rest = if whole { "" } else { "; files that do not belong to a run are kept" };
        print(&format!("removed {}{rest}\n", path.display()))?;
    }
    Ok(Exit::Done)
}

/// Describes a run that can be removed. One of another format is described by that format, as its tables cannot be read.
fn shown(path: &Path) -> Result<String, CliError> {
    if is_held(path) {
        return Err(DirectoryError::InUse(path.to_owned()).into());
    }
    let run = match RunRecord::read(path) {
        Err(ResultsError::Run(DirectoryError::OtherFormat { found, writer, .. })) => {
            return Ok(format!("run directory of format {found}, written by {writer}"));
        }
        run => run?,
    };
    let size = Bytes(RunRow::of(&run).size_bytes);
    let (method, seed, state) = (&run.manifest.method, run.manifest.seeds.run, State::of(&run));
    Ok(format!("{method}, seed {seed}, {state}, {size}"))
}

fn confirmed(runs: &[Removal]) -> Result<bool, CliError> {
    for Removal { path, shown } in runs {
        print_status(&format!("{}  {shown}", path.display()));
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
