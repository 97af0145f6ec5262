//! `fedcast runs --follow`: a line for every round of running runs, until the last of them ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ListArgs;
use crate::cli::failure::CliError;
use crate::cli::{Exit, print};
use crate::experiment::names;
use crate::methods::Registry;
use crate::quantity::WallSeconds;
use crate::report::text_table::percent;
use crate::results::{FoundRuns, RunRecord, State};

/// Interval at which directories are read.
const LOOK: Duration = Duration::from_millis(500);

/// Running run while it is followed.
struct Followed {
    /// Rounds closed when it was first seen, and that time.
    first: (u64, Instant),
    /// Rounds of the last line.
    rounds: Option<u64>,
    /// Rounds of the whole run, as far as its scenario says them.
    planned: Option<u64>,
}

/// Rounds closed so far, and the last accuracy.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RoundsClosed {
    rounds: u64,
    accuracy: Option<f64>,
}

/// Prints progress until no run below the folder is running.
///
/// # Errors
/// Fails if a manifest cannot be read, or nothing can be printed.
pub(super) fn follow(args: &ListArgs, folder: &Path, methods: &Registry) -> Result<Exit, CliError> {
    let mut followed: BTreeMap<PathBuf, Followed> = BTreeMap::new();
    loop {
        let FoundRuns { runs, .. } = FoundRuns::below(folder, methods)?;
        let mut running = 0;
        for run in runs.iter().filter(|run| chosen(args, run)) {
            let state = State::of(run);
            if state == State::Running {
                running += 1;
                let progress = RoundsClosed::of(run);
                let known = followed.entry(run.path.clone()).or_insert_with(|| Followed {
                    first: (progress.rounds, Instant::now()),
                    rounds: None,
                    planned: run.planned_rounds(),
                });
                if known.rounds != Some(progress.rounds) {
                    known.rounds = Some(progress.rounds);
                    let left = known.left(progress.rounds, known.first.1.elapsed());
                    let line = progress.line(known.planned, left);
                    print(&format!("{}  {line}\n", below(folder, &run.path)))?;
                }
            } else if followed.remove(&run.path).is_some() {
                let RoundsClosed { rounds, accuracy } = RoundsClosed::of(run);
                let accuracy = accuracy_text(accuracy);
                print(&format!(
                    "{}  {state} after round {rounds}{accuracy}\n",
                    below(folder, &run.path)
                ))?;
            }
        }
        if running == 0 {
            let end = format!("no run at or below {} is running\n", folder.display());
            return print(&end).map(|()| Exit::Done);
        }
        std::thread::sleep(LOOK);
    }
}

fn chosen(args: &ListArgs, run: &RunRecord) -> bool {
    args.method.is_empty() || args.method.contains(&run.manifest.method)
}

fn below(folder: &Path, path: &Path) -> String {
    let below = path.strip_prefix(folder).ok().filter(|rest| !rest.as_os_str().is_empty());
    below.unwrap_or(path).display().to_string()
}

fn accuracy_text(accuracy: Option<f64>) -> String {
    accuracy.map_or_else(String::new, |share| format!(", accuracy {} %", percent(Some(share))))
}

impl Followed {
    /// Estimates the seconds left by the rounds closed since the run was first seen, after `elapsed`.
    fn left(&self, rounds: u64, elapsed: Duration) -> Option<f64> {
        let seen = rounds.checked_sub(self.first.0).filter(|seen| *seen > 0)?;
        let missing = self.planned?.checked_sub(rounds)?;
        Some(elapsed.as_secs_f64() / seen as f64 * missing as f64)
    }
}

impl RoundsClosed {
    /// Reads `rounds.csv`, which grows by a row per closed round.
    fn of(run: &RunRecord) -> RoundsClosed {
        // A row that is being written is not one yet.
        let Ok(Some(table)) = run.sheet(names::ROUNDS) else {
            return RoundsClosed { rounds: 0, accuracy: None };
        };
        let accuracies = table.numbers("accuracy_seen").unwrap_or_default();
        RoundsClosed {
            rounds: table.rows.len() as u64,
            accuracy: accuracies.into_iter().flatten().next_back(),
        }
    }

    fn line(self, planned: Option<u64>, left: Option<f64>) -> String {
        let of = planned.map_or_else(String::new, |planned| format!(" of {planned}"));
        let left = left.map_or_else(String::new, |s| format!(", about {} left", WallSeconds(s)));
        format!("round {}{of}{}{left}", self.rounds, accuracy_text(self.accuracy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_that_of_the_rounds_that_were_seen() {
        let followed = Followed { first: (4, Instant::now()), rounds: Some(4), planned: Some(10) };
        // Two rounds in six seconds; four are left.
        assert_eq!(followed.left(6, Duration::from_secs(6)), Some(12.0));
        assert_eq!(followed.left(4, Duration::from_secs(6)), None);
        let unknown = Followed { planned: None, ..followed };
        assert_eq!(unknown.left(6, Duration::from_secs(6)), None);
    }

    #[test]
    fn a_line_says_what_is_known() {
        let progress = RoundsClosed { rounds: 3, accuracy: Some(0.7123) };
        assert_eq!(
            progress.line(Some(10), Some(65.0)),
            format!("round 3 of 10, accuracy 71.23 %, about {} left", WallSeconds(65.0))
        );
        assert_eq!(RoundsClosed { rounds: 0, accuracy: None }.line(None, None), "round 0");
    }
}
