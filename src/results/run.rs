//! Reader of one run directory.

use std::cell::OnceCell;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

use super::catalogue::{CostUnit, MetricSource};
use super::{Metric, ResultsError, Sheet, Spread};
use crate::experiment::assemble::blueprint;
use crate::experiment::plan::{Faults, Total, plan};
use crate::experiment::{DirectoryError, Manifest, Status, names, read_manifest};
use crate::files::{self, FileKind};
use crate::methods::Registry;
use crate::report::Summary;
use crate::report::words::CONTROL;
use crate::scenario::Scenario;

/// Record of a run: manifest, scenario, summary and tables.
///
/// An unfinished run has a manifest and a scenario; its `summary` is written at its end. Tables are read when a metric
/// needs them.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// Run directory.
    pub path: PathBuf,
    /// Content of `manifest.json`.
    pub manifest: Manifest,
    /// Text of the effective scenario.
    pub scenario_text: String,
    /// Effective scenario as a table.
    pub scenario: toml::Table,
    /// Content of `summary.json`, once the run has ended.
    pub summary: Option<Value>,
    planned: OnceLock<Option<Total>>,
    methods: Registry,
}

/// Runs at or below a folder.
#[derive(Debug, Default)]
pub struct FoundRuns {
    /// Runs of this format, in the order of their paths.
    pub runs: Vec<RunRecord>,
    /// Errors of directories that were written in another format.
    pub other_formats: Vec<DirectoryError>,
}

impl FoundRuns {
    /// Finds every run at or below a folder, finished or not. The registry has the methods of the runs.
    ///
    /// A folder without a readable manifest is no run; links are not followed.
    ///
    /// # Errors
    /// Fails if a folder cannot be read, or if a file of a run is damaged. A missing folder holds no runs.
    pub fn below(root: &Path, methods: &Registry) -> Result<FoundRuns, ResultsError> {
        let mut found = FoundRuns::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            match read_manifest(&folder) {
                Ok(manifest) => {
                    found.runs.push(RunRecord::with_manifest(&folder, manifest, methods)?);
                }
                Err(error @ DirectoryError::OtherFormat { .. }) => found.other_formats.push(error),
                Err(_) => {}
            }
            let failed = |source| ResultsError::Read { path: folder.clone(), source };
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            for entry in entries {
                let entry = entry.map_err(failed)?;
                if entry.file_type().map_err(failed)?.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        found.runs.sort_by(|one, other| one.path.cmp(&other.path));
        found.other_formats.sort_by_key(ToString::to_string);
        Ok(found)
    }
}

impl RunRecord {
    /// Reads the run at `path`, of a method of fedcast.
    ///
    /// # Errors
    /// Fails if there is no run, or if one of its files is damaged.
    pub fn read(path: &Path) -> Result<RunRecord, ResultsError> {
        RunRecord::read_with(path, &Registry::builtin())
    }

    /// Reads the run at `path`, of a method of the registry.
    ///
    /// Only the planned work of the run (`sample_passes` and the like) needs the method itself.
    ///
    /// # Errors
    /// Fails if there is no run, or if one of its files is damaged.
    pub fn read_with(path: &Path, methods: &Registry) -> Result<RunRecord, ResultsError> {
        RunRecord::with_manifest(path, read_manifest(path)?, methods)
    }

    fn with_manifest(
        path: &Path,
        manifest: Manifest,
        methods: &Registry,
    ) -> Result<RunRecord, ResultsError> {
        let scenario_path = path.join(names::SCENARIO);
        let scenario_text = files::read_text(&scenario_path, FileKind::Scenario)
            .map_err(|source| ResultsError::Read { path: scenario_path.clone(), source })?;
        let scenario = scenario_text.parse().map_err(|error: toml::de::Error| {
            ResultsError::Damaged { path: scenario_path, why: error.message().to_owned() }
        })?;
        Ok(RunRecord {
            path: path.to_owned(),
            manifest,
            scenario_text,
            scenario,
            summary: json(&path.join(names::SUMMARY))?,
            planned: OnceLock::new(),
            methods: methods.clone(),
        })
    }

    /// Finds every run at or below a folder, finished or not, in the order of their paths.
    ///
    /// A folder without a readable manifest is no run; links are not followed.
    ///
    /// # Errors
    /// Fails if a folder cannot be read, if a file of a run is damaged, or if a run has another format. A missing
    /// folder holds no runs.
    pub fn find(root: &Path) -> Result<Vec<RunRecord>, ResultsError> {
        let found = FoundRuns::below(root, &Registry::builtin())?;
        match found.other_formats.into_iter().next() {
            Some(error) => Err(error.into()),
            None => Ok(found.runs),
        }
    }

    /// Returns true if the run is complete and has aggregated an update.
    ///
    /// Without one its metrics are of an untrained model.
    pub fn is_done(&self) -> bool {
        let trained = || !self.summary.as_ref().is_some_and(Summary::value_trained_nothing);
        self.manifest.status == Status::Done && trained()
    }

    /// Returns the number at a path of `summary.json`, such as `/accuracy/faa`.
    pub fn number(&self, pointer: &str) -> Option<f64> {
        self.summary.as_ref()?.pointer(pointer)?.as_f64()
    }

    /// Returns the number of clients that own data; `None` for a fresh population or if unknown.
    pub fn fixed_population(&self) -> Option<usize> {
        let key = |section: &str, key: &str| self.scenario.get(section)?.get(key).cloned();
        let is_fresh =
            key("participation", "population").is_some_and(|p| p.as_str() == Some("fresh"));
        let clients = key("federation", "clients")?.as_integer()?;
        usize::try_from(clients).ok().filter(|_| !is_fresh)
    }

    /// Reads a table of the run by its file name; `None` if there is no such file.
    ///
    /// # Errors
    /// Fails if the file is damaged.
    pub fn sheet(&self, name: &str) -> Result<Option<Sheet>, ResultsError> {
        Sheet::read(&self.path.join(name))
    }

    /// Returns the value of a metric; `None` if the run does not have it (yet).
    pub fn figure(&self, metric: &Metric) -> Option<f64> {
        self.figures(std::slice::from_ref(metric)).pop().flatten()
    }

    /// Returns the values of several metrics; each table that they need is read once.
    pub fn figures(&self, metrics: &[Metric]) -> Vec<Option<f64>> {
        let tables = Tables {
            run: self,
            rounds: OnceCell::new(),
            clients: OnceCell::new(),
            participation: OnceCell::new(),
        };
        // An empty sum is -0, and so is a negated 0: adding 0 gives +0.
        metrics.iter().map(|metric| Some(self.value(metric, &tables)? + 0.0)).collect()
    }

    fn value(&self, metric: &Metric, tables: &Tables<'_>) -> Option<f64> {
        match &metric.source {
            MetricSource::Summary(pointer) => self.number(pointer),
            MetricSource::Frames(way, field) => self.frames_of(*way, field),
            MetricSource::PerRound(way) => {
                let rounds = self.number("/rounds").filter(|rounds| *rounds > 0.0)?;
                Some(self.frames_of(*way, "bytes")? / rounds)
            }
            MetricSource::Kind(way, kind) if kind == CONTROL => self.frames(way, "control"),
            MetricSource::Kind(way, kind) => self.frames(way, &format!("kinds/{kind}")),
            MetricSource::Clients(column) => tables.clients()?.sum(column),
            MetricSource::Wasted => self.wasted(tables),
            MetricSource::Participants => self.participants(tables),
            MetricSource::Silent => {
                let share = tables.rounds()?.sum("aggregated")? / self.participants(tables)?;
                share.is_finite().then_some(1.0 - share)
            }
            MetricSource::EventMean(event, name) => self.mean_over_events(event, name),
            MetricSource::ClientsSampled => clients_sampled(tables.clients()?),
            MetricSource::Planned(work) => {
                self.planned.get_or_init(|| self.planned()).as_ref().map(|total| work.of(total))
            }
            MetricSource::Wall => {
                self.manifest.cost.wall_s.or_else(|| self.number("/wall/total_s"))
            }
            MetricSource::Memory => self.manifest.cost.peak_memory_mb,
            MetricSource::Until(cost, accuracy) => until(tables.rounds()?, *cost, *accuracy),
        }
    }

    /// Returns a field summed over the frames of one direction (`up` or `down`), or of both.
    fn frames_of(&self, way: Option<&str>, field: &str) -> Option<f64> {
        match way {
            Some(way) => self.frames(way, field),
            None => Some(self.frames("down", field)? + self.frames("up", field)?),
        }
    }

    /// Returns the kinds of payload in one direction (`up` or `down`), by name.
    pub fn kinds(&self, way: &str) -> Vec<String> {
        let outcomes = self.outcomes(way).into_iter().flatten();
        let kinds = outcomes.filter_map(|sums| sums.get("kinds")?.as_object());
        let mut kinds: Vec<String> = kinds.flat_map(|kinds| kinds.keys().cloned()).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    fn outcomes(&self, way: &str) -> Option<Vec<&Value>> {
        let bytes = self.summary.as_ref()?.get("bytes")?;
        // Nothing was sent in this direction.
        let Some(outcomes) = bytes.get(way) else { return Some(Vec::new()) };
        Some(outcomes.as_object()?.values().collect())
    }

    /// Returns the sum of a field over all frames in a direction.
    ///
    /// A kind that was not sent has no entry and counts 0 bytes.
    fn frames(&self, way: &str, field: &str) -> Option<f64> {
        let of = |sums: &&Value| sums.pointer(&format!("/{field}")).and_then(Value::as_f64);
        Some(self.outcomes(way)?.iter().filter_map(of).sum())
    }

    fn wasted(&self, tables: &Tables<'_>) -> Option<f64> {
        let sent = self.frames("up", "bytes")?;
        let delivered = self.number("/bytes/up/delivered/bytes").unwrap_or(0.0);
        let used = delivered - tables.participation().and_then(refused_bytes).unwrap_or(0.0);
        (sent > 0.0).then(|| 1.0 - used / sent)
    }

    /// Returns the participants of all rounds, without load clients: those never have an update to aggregate.
    fn participants(&self, tables: &Tables<'_>) -> Option<f64> {
        let all = tables.rounds()?.sum("participants")?;
        let has_load = self.summary.as_ref().is_some_and(|it| it.get("load_clients").is_some());
        match has_load {
            false => Some(all),
            true => Some(all - load_participants(tables.participation()?)?),
        }
    }

    /// Returns the unweighted mean of a number over the events of a type that contain it.
    fn mean_over_events(&self, event: &str, name: &str) -> Option<f64> {
        let journal = files::open(&self.path.join(names::EVENTS), FileKind::Journal).ok()?;
        let lines = BufReader::new(journal).lines().map_while(Result::ok);
        let said = lines.filter(|line| line.contains(name)).filter_map(|line| {
            let entry: Value = serde_json::from_str(&line).ok()?;
            let meant = entry.pointer("/event/type")? == event;
            let figure = entry.pointer("/numbers/metrics")?.get(name)?.as_f64();
            figure.filter(|_| meant)
        });
        Spread::of(&said.collect::<Vec<_>>()).map(|spread| spread.mean)
    }

    /// Returns the planned rounds of the whole run; `None` if it cannot be planned here.
    pub fn planned_rounds(&self) -> Option<u64> {
        self.planned.get_or_init(|| self.planned()).as_ref().map(|total| total.rounds)
    }

    fn planned(&self) -> Option<Total> {
        let methods = &self.methods;
        let name = &self.manifest.scenario.name;
        let loaded = Scenario::from_toml(&self.scenario_text, name, &self.path, &[], methods);
        let scenario = loaded.ok()?.scenario;
        Some(plan(&blueprint(&scenario, methods).ok()?, Faults::Off).ok()?.total)
    }
}

/// Tables of a run, each read at its first use.
struct Tables<'a> {
    run: &'a RunRecord,
    rounds: OnceCell<Option<Sheet>>,
    clients: OnceCell<Option<Sheet>>,
    participation: OnceCell<Option<Sheet>>,
}

impl Tables<'_> {
    fn rounds(&self) -> Option<&Sheet> {
        self.rounds.get_or_init(|| self.run.sheet(names::ROUNDS).ok().flatten()).as_ref()
    }

    fn clients(&self) -> Option<&Sheet> {
        self.clients.get_or_init(|| self.run.sheet(names::CLIENTS).ok().flatten()).as_ref()
    }

    fn participation(&self) -> Option<&Sheet> {
        let read = || self.run.sheet(names::PARTICIPATION).ok().flatten();
        self.participation.get_or_init(read).as_ref()
    }
}

/// Returns the bytes of uploads that arrived in time and were not used all the same.
fn refused_bytes(participation: &Sheet) -> Option<f64> {
    let outcome = participation.column("outcome")?;
    let bytes = participation.numbers("bytes_up")?;
    let rows = participation.rows.iter().zip(bytes);
    let refused = rows.filter(|(row, _)| matches!(&*row[outcome], "rejected" | "restart"));
    Some(refused.filter_map(|(_, bytes)| bytes).sum())
}

/// Returns the participants of load clients.
fn load_participants(participation: &Sheet) -> Option<f64> {
    let outcome = participation.column("outcome")?;
    let counts = participation.numbers("participants")?;
    let rows = participation.rows.iter().zip(counts);
    let load = rows.filter(|(row, _)| row[outcome] == "load_client");
    Some(load.filter_map(|(_, count)| count).sum())
}

fn clients_sampled(clients: &Sheet) -> Option<f64> {
    let (kind, asked) = (clients.column("kind")?, clients.column("rounds_sampled")?);
    let sampled = clients.rows.iter().filter(|row| row[kind] == "client" && row[asked] != "0");
    Some(sampled.count() as f64)
}

/// Returns the cost until an accuracy was first reached.
fn until(rounds: &Sheet, cost: CostUnit, accuracy: f64) -> Option<f64> {
    let seen = rounds.numbers("accuracy_seen")?;
    let row = seen.iter().position(|seen| seen.is_some_and(|seen| seen >= accuracy))?;
    match cost {
        CostUnit::Rounds => rounds.numbers("round")?[row],
        CostUnit::VirtualSeconds => rounds.numbers("closed_s")?[row],
        CostUnit::Bytes => {
            let spent = |name| Some(rounds.numbers(name)?[..=row].iter().flatten().sum::<f64>());
            Some(spent("bytes_down")? + spent("bytes_up")?)
        }
    }
}

/// Reads a JSON file; `None` if there is none.
fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, ResultsError> {
    let text = match files::read_text(path, FileKind::Manifest) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ResultsError::Read { path: path.to_owned(), source }),
    };
    let damaged = |error: serde_json::Error| ResultsError::Damaged {
        path: path.to_owned(),
        why: error.to_string(),
    };
    serde_json::from_str(&text).map(Some).map_err(damaged)
}

#[cfg(test)]
mod tests;
