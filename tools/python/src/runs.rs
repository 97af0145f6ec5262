//! Runs: executed, resumed, forked, verified, timed again, read.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use fedcast::experiment::assemble::round_closing;
use fedcast::experiment::ranks::ComputeResources;
use fedcast::experiment::{
    self, ForkOptions, Provenance, ResumeOptions, Resumed, Run, Verified, VerifyOptions,
};
use fedcast::experiment::{hold_for_tables, read_manifest, read_summary, what_if_scenario};
use fedcast::federation::{EndReason, EventSink, Interrupt};
use fedcast::report::tables::{TableFiles, copy_tables};
use fedcast::report::{self, Executed, Shared, Timing, dictionary};
use fedcast::scenario::Scenario;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::attend::{Audience, attend, without_gil};
use crate::columns::read_csv;
use crate::errors::Failure;
use crate::report::{Reporter, RoundReport};
use crate::rule::Rule;
use crate::table::Table;
use crate::values::to_overrides;

/// End of a run for Python: directory, reason, notes.
#[pyclass(frozen, get_all, module = "fedcast._fedcast")]
pub struct Ended {
    /// Directory of the run.
    directory: PathBuf,
    /// `done`, `interrupted` or `aborted`.
    reason: &'static str,
    /// True if no update was ever aggregated.
    learned_nothing: bool,
    /// Notes about data, checkpoints and caches.
    notes: Vec<String>,
}

/// Handles for the execution of a run from Python.
pub struct RunCall {
    reports: Sender<RoundReport>,
    pub interrupt: Interrupt,
}

impl RunCall {
    /// Executes a prepared run; its first `replayed` entries come from a journal.
    pub fn execute(
        self,
        run: Run,
        scenario: &Scenario,
        replayed: u64,
        mut notes: Vec<String>,
    ) -> Result<Ended, Failure> {
        notes.extend(run.notes().iter().cloned());
        let cache = run.cache();
        let reporter: Box<dyn EventSink> = Box::new(Reporter::new(self.reports, replayed));
        let executed = report::execute(run, scenario, replayed, vec![reporter], self.interrupt)?;
        let Executed { finished, directory, summary } = executed;
        notes.extend(cache.notices());
        let reason = match finished.reason {
            EndReason::Done => "done",
            EndReason::Interrupted => "interrupted",
            EndReason::Aborted => "aborted",
        };
        let learned_nothing = finished.reason == EndReason::Done && summary.trained_nothing();
        Ok(Ended { directory: directory.path().to_owned(), reason, learned_nothing, notes })
    }
}

/// Runs `work` without the GIL, and passes the reports of its run to `callback`.
pub fn compute<T: Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    work: impl FnOnce(RunCall) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let (sender, reports) = channel();
    let interrupt = Interrupt::default();
    let call = RunCall { reports: sender, interrupt: interrupt.clone() };
    attend(py, &interrupt, Audience { reports: Mutex::new(reports), callback }, move || work(call))
}

/// Resume a run from its last checkpoint.
#[pyfunction]
pub fn resume(
    py: Python<'_>,
    path: PathBuf,
    places: Option<&Bound<'_, PyDict>>,
    workers: Option<u32>,
    force: bool,
    callback: Option<Py<PyAny>>,
    rule: Option<Py<PyAny>>,
) -> PyResult<Ended> {
    let rule = Rule::new(rule);
    let resources = ComputeResources { workers, ranks: None };
    let options = ResumeOptions { resources, force, places: to_overrides(places)? };
    let ended = compute(py, callback, |call| {
        rule.require(&read_manifest(&path)?.method)?;
        let resumed = experiment::resume(&path, &rule.registry(), options)?;
        let Resumed { run, scenario, notices, replayed } = resumed;
        call.execute(run, &scenario, replayed, notices)
    });
    ended.map_err(|error| rule.explain(py, error))
}

/// Fork a run after a task and execute the new run.
#[pyfunction]
#[pyo3(signature = (path, after_task, overrides, out, recompute, force, workers, callback, rule))]
#[expect(clippy::too_many_arguments, reason = "they are the options of `fedcast fork`")]
pub fn fork(
    py: Python<'_>,
    path: PathBuf,
    after_task: u32,
    overrides: Option<&Bound<'_, PyDict>>,
    out: Option<PathBuf>,
    recompute: bool,
    force: bool,
    workers: Option<u32>,
    callback: Option<Py<PyAny>>,
    rule: Option<Py<PyAny>>,
) -> PyResult<Ended> {
    let rule = Rule::new(rule);
    let overrides = to_overrides(overrides)?;
    let command = py.import("sys")?.getattr("argv")?.extract()?;
    let requires = read_manifest(&path).ok().and_then(|manifest| manifest.provenance.requires);
    let provenance = Provenance { command, overrides: overrides.clone(), origin: None, requires };
    let options = ForkOptions { after_task, overrides, out, recompute, force, workers, provenance };
    let ended = compute(py, callback, |call| {
        rule.require(&read_manifest(&path)?.method)?;
        let interrupt = call.interrupt.clone();
        let forked = experiment::fork(&path, &rule.registry(), &options, interrupt)?;
        let Resumed { run, scenario, notices, replayed } = forked;
        call.execute(run, &scenario, replayed, notices)
    });
    ended.map_err(|error| rule.explain(py, error))
}

/// Execute a run again and compare every entry; returns the result as JSON.
#[pyfunction]
pub fn verify(
    py: Python<'_>,
    path: PathBuf,
    places: Option<&Bound<'_, PyDict>>,
    workers: Option<u32>,
    from_round: Option<u32>,
    callback: Option<Py<PyAny>>,
    rule: Option<Py<PyAny>>,
) -> PyResult<String> {
    let rule = Rule::new(rule);
    let places = to_overrides(places)?;
    let verified = compute(py, callback, |call| {
        rule.require(&read_manifest(&path)?.method)?;
        let options = VerifyOptions { workers, ranks: None, from_round, places };
        let progress: Box<dyn EventSink> = Box::new(Reporter::new(call.reports, 0));
        let methods = rule.registry();
        let verified =
            experiment::verify(&path, &methods, options, Some(progress), call.interrupt)?;
        let Verified { entries, digests, partial, replayed, notices } = verified;
        let found = serde_json::json!({
            "entries": entries, "partial": partial, "replayed": replayed, "digests": digests,
            "notes": notices,
        });
        Ok(found.to_string())
    });
    verified.map_err(|error| rule.explain(py, error))
}

/// Time a recorded run again with other links, speeds or closing rules; returns both timings as JSON.
#[pyfunction]
pub fn what_if(
    py: Python<'_>,
    path: PathBuf,
    overrides: Option<&Bound<'_, PyDict>>,
    out: Option<PathBuf>,
) -> PyResult<String> {
    let (rule, overrides) = (Rule::new(None), to_overrides(overrides)?);
    compute(py, None, |call| {
        drop(call);
        let methods = rule.registry();
        let manifest = read_manifest(&path)?;
        let mut recorded = Timing::default();
        experiment::replay(&path, &mut [&mut recorded])?;
        if out.as_ref() == Some(&path) {
            let what = "`out` names the recorded run, whose tables these are not";
            return Err(Failure::usage(format!("{what}\n  help: name another folder")));
        }
        let _lock = out.as_deref().map(|out| hold_for_tables(out, &manifest)).transpose()?;
        let retimed = Shared::new(Timing::default());
        let scenario = what_if_scenario(&path, &overrides, &methods)?;
        let mut readers: Vec<Box<dyn EventSink>> = vec![Box::new(retimed.clone())];
        if let Some(out) = &out {
            let (record, closing) = (&scenario.record, round_closing(&scenario));
            let files = TableFiles::create(out, record, closing, &manifest.class_names)?;
            readers.push(Box::new(files));
        }
        let digests = experiment::what_if(&path, &overrides, &methods, readers)?;
        out.as_deref().map_or(Ok(()), |out| copy_tables(&path, out))?;
        let times = |timing: &Timing| {
            serde_json::json!({
                "closed_s": timing.closed_s, "virtual_s": timing.virtual_s, "sent": timing.sent,
                "wasted": timing.wasted,
            })
        };
        let found = serde_json::json!({
            "recorded": times(&recorded), "retimed": times(&retimed.lock()), "digests": digests,
        });
        Ok(found.to_string())
    })
}

/// Return `manifest.json`.
#[pyfunction]
pub fn manifest(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    without_gil(py, || Ok(read_manifest(&path)?.to_json()))
}

/// Return `summary.json`.
#[pyfunction]
pub fn summary(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    without_gil(py, || Ok(read_summary(&path)?))
}

/// Read a CSV table of a run.
#[pyfunction]
pub fn run_table(py: Python<'_>, path: PathBuf, file: &str) -> PyResult<Table> {
    let read = || {
        let known = dictionary::file(file).filter(|known| known.name.ends_with(".csv"));
        let known = known.ok_or_else(|| {
            Failure::usage(format!(
                "a run has no table `{file}`\n  help: `fedcast columns` lists them"
            ))
        })?;
        read_csv(&path.join(known.name), known.columns)
    };
    Ok(Table::from(without_gil(py, read)?))
}
