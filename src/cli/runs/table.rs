//! `fedcast runs ls`: table with one row per run.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::Serialize;

use super::{ListArgs, Sort};
use crate::cli::failure::CliError;
use crate::cli::stderr::print_status;
use crate::cli::{Exit, OutputFormat, given, print, print_json, print_text};
use crate::document::Document;
use crate::experiment::names;
use crate::methods::Registry;
use crate::quantity::Bytes;
use crate::report::screen;
use crate::report::text_table::{TextTable, percent};
use crate::results::{FoundRuns, Metric, RunRecord, State};

/// List of runs as JSON.
#[derive(Debug, Serialize, Document)]
pub(in crate::cli) struct RunList<'a> {
    /// Runs, in the order of the list.
    runs: &'a [RunRow],
}

/// Row of a run in the list.
#[derive(Debug, Serialize, Document)]
pub(in crate::cli) struct RunRow {
    /// Run directory.
    path: PathBuf,
    /// Name of the scenario.
    name: String,
    /// Name of the method.
    method: String,
    /// Seed of the run.
    seed: u64,
    /// `running`, `killed`, `done`, `interrupted` or `failed`.
    status: State,
    /// Closed rounds; those reached so far, of a run that is not complete.
    pub(super) rounds: u64,
    /// Final average accuracy; null until the run is complete.
    #[document(unit = "share")]
    faa: Option<f64>,
    /// Bytes of delivered uploads.
    bytes_up: Option<u64>,
    /// Bytes of delivered downloads.
    bytes_down: Option<u64>,
    /// Size of all files of the run, in bytes.
    pub(super) size_bytes: u64,
    /// Time of the last write to one of the run's files, in UTC.
    pub(super) changed: Option<String>,
    #[serde(skip)]
    age: Option<Duration>,
}

impl RunRow {
    pub(super) fn of(run: &RunRecord) -> RunRow {
        let figure = |name| Metric::parse(name).ok().and_then(|metric| run.figure(&metric));
        let whole = |name| figure(name).map(|value| value as u64);
        // The summary is written at the end; rounds.csv of an unfinished run has a row per closed round.
        let closed = || run.sheet(names::ROUNDS).ok().flatten().map(|rounds| rounds.rows.len());
        let rounds = run.number("/rounds").map_or(closed().unwrap_or(0) as u64, |n| n as u64);
        let (size_bytes, changed) = on_disk(&run.path);
        let status = State::of(run);
        RunRow {
            path: run.path.clone(),
            name: run.manifest.scenario.name.clone(),
            method: run.manifest.method.clone(),
            seed: run.manifest.seeds.run,
            status,
            rounds,
            // The summary of an interrupted run has the accuracy so far, which is no final one.
            faa: figure("faa").filter(|_| status == State::Done),
            bytes_up: whole("bytes_up"),
            bytes_down: whole("bytes_down"),
            size_bytes,
            changed: changed.and_then(|at| Timestamp::try_from(at).ok()).map(|at| at.to_string()),
            age: changed.and_then(|at| SystemTime::now().duration_since(at).ok()),
        }
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.bytes_up? + self.bytes_down?)
    }
}

/// Returns the size of a folder in bytes and the time of the last change in it.
fn on_disk(path: &Path) -> (u64, Option<SystemTime>) {
    let (mut size, mut changed) = (0, None);
    // A file that another process removes meanwhile has no size.
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        let (more, at) = match meta.is_dir() {
            true => on_disk(&entry.path()),
            false => (meta.len(), meta.modified().ok()),
        };
        size += more;
        changed = changed.max(at);
    }
    (size, changed)
}

/// Formats an age in the largest unit of which at least one has passed.
fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Prints the runs below a folder.
pub(super) fn list(args: &ListArgs, methods: &Registry) -> Result<Exit, CliError> {
    let usual = || PathBuf::from(if Path::new("runs").is_dir() { "runs" } else { "." });
    let folder = args.folder.clone().unwrap_or_else(usual);
    given::check_folder_of_runs(&folder)?;
    if !folder.is_dir() {
        return Err(CliError::Usage(format!("{} is not a folder", folder.display())));
    }
    if args.follow {
        return super::follow::follow(args, &folder, methods);
    }
    let FoundRuns { runs: found, other_formats } = FoundRuns::below(&folder, methods)?;
    for error in &other_formats {
        print_status(&format!("left out: {error}"));
    }
    let mut rows: Vec<RunRow> = found.iter().map(RunRow::of).collect();
    rows.retain(|row| {
        let status = args.status.is_empty() || args.status.contains(&row.status);
        status && (args.method.is_empty() || args.method.contains(&row.method))
    });
    sort(&mut rows, args.sort);
    match args.format {
        OutputFormat::Json => print_json(&RunList { runs: &rows })?,
        OutputFormat::Human if rows.is_empty() => {
            let all = found.len();
            let folder = folder.display();
            let none = match all {
                0 => format!("no run at or below {folder}\n"),
                all => format!("none of the {all} runs at or below {folder} matches the filters\n"),
            };
            print(&none)?;
        }
        OutputFormat::Human => print_text(&render(&rows, &folder))?,
    }
    Ok(Exit::Done)
}

fn sort(rows: &mut [RunRow], order: Sort) {
    match order {
        Sort::Path => rows.sort_by(|one, other| one.path.cmp(&other.path)),
        Sort::Name => rows.sort_by(|a, b| (&a.name, a.seed).cmp(&(&b.name, b.seed))),
        Sort::Method => rows.sort_by(|a, b| (&a.method, a.seed).cmp(&(&b.method, b.seed))),
        Sort::Status => rows.sort_by_key(|row| row.status.to_string()),
        Sort::Faa => {
            let faa = |row: &RunRow| row.faa.unwrap_or(f64::NEG_INFINITY);
            rows.sort_by(|one, other| faa(other).total_cmp(&faa(one)));
        }
        Sort::Bytes => rows.sort_by_key(|row| Reverse(row.bytes())),
        Sort::Size => rows.sort_by_key(|row| Reverse(row.size_bytes)),
        Sort::Age => rows.sort_by_key(|row| row.age.unwrap_or(Duration::MAX)),
    }
}

fn render(rows: &[RunRow], folder: &Path) -> String {
    let mut table = table(rows, folder, true);
    if screen::columns().is_some_and(|columns| table.width() > columns) {
        // The path says the name, too.
        table = self::table(rows, folder, false);
    }
    let whole = rows.iter().map(|row| Bytes(row.size_bytes)).sum::<Bytes>();
    let word = if rows.len() == 1 { "run" } else { "runs" };
    format!("{}{} {word} in {}, {}\n", table.render(), rows.len(), folder.display(), whole)
}

fn table(rows: &[RunRow], folder: &Path, with_names: bool) -> TextTable {
    let names = |name: &str| with_names.then(|| name.to_owned());
    let head = ["method", "status", "seed", "rounds", "FAA %", "down", "up", "on disk", "age"];
    let head = ["run".to_owned()].into_iter().chain(names("name")).chain(head.map(str::to_owned));
    let left = if with_names { 4 } else { 3 };
    let mut table = TextTable::new(head).left(left).repeated(1).leaving_out();
    for row in rows {
        let below = row.path.strip_prefix(folder).unwrap_or(&row.path);
        let below = if below.as_os_str().is_empty() { row.path.as_path() } else { below };
        let bytes =
            |bytes: Option<u64>| bytes.map_or_else(String::new, |bytes| Bytes(bytes).to_string());
        let first = [below.display().to_string()].into_iter().chain(names(&row.name));
        table.row(first.chain([
            row.method.clone(),
            row.status.to_string(),
            row.seed.to_string(),
            row.rounds.to_string(),
            percent(row.faa),
            bytes(row.bytes_down),
            bytes(row.bytes_up),
            Bytes(row.size_bytes).to_string(),
            row.age.map_or_else(String::new, ago),
        ]));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_in_the_largest_unit_that_is_over() {
        let ages = [59, 60, 7_199, 172_800].map(|s| ago(Duration::from_secs(s)));
        assert_eq!(ages, ["59 s", "1 min", "1 h", "2 days"]);
    }
}
