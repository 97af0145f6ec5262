//! Studies: many runs from one file, as processes of the interpreter.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use fedcast::federation::Interrupt;
use fedcast::methods::Registry;
use fedcast::results;
use fedcast::scenario::Override;
use fedcast::study::tables::{MainTable, cells_table, paired_table, rounds_table, write};
use fedcast::study::{
    CellState, Ended, Only, Outcomes, PreparedCell, ProcessPool, Queue, StudyDirectory, StudyEvent,
    first_errors, overrides, prepare,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::attend::{Audience, Report, attend, without_gil};
use crate::columns::from_table;
use crate::errors::Failure;
use crate::table::Table;
use crate::values::to_overrides;

/// Study that was read, with its directory.
#[pyclass(frozen, module = "fedcast._fedcast")]
pub struct Study {
    study: fedcast::study::Study,
    directory: StudyDirectory,
    overrides: Vec<Override>,
    methods: Registry,
}

/// Label, seed, state, run directory and error of a cell.
type CellRow = (String, u64, &'static str, PathBuf, Option<String>);

/// Event of a cell for a callback.
struct CellReport {
    event: &'static str,
    label: String,
    seed: u64,
    wall_s: Option<f64>,
    ended: usize,
    cells: usize,
}

impl Report for CellReport {
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let of = PyDict::new(py);
        of.set_item("event", self.event)?;
        of.set_item("label", &self.label)?;
        of.set_item("seed", self.seed)?;
        of.set_item("wall_s", self.wall_s)?;
        of.set_item("ended", self.ended)?;
        of.set_item("cells", self.cells)?;
        Ok(of)
    }
}

impl Study {
    /// Returns the cells, all valid, and the known outcomes of their runs.
    fn read(&self) -> Result<(Vec<PreparedCell>, Outcomes), Failure> {
        let Study { study, directory, overrides, methods } = self;
        let (cells, invalid) = prepare(study, directory, overrides, methods);
        if let Some(error) = first_errors(study, invalid) {
            return Err(error.into());
        }
        let outcomes = Outcomes::read(study, &cells, directory, methods);
        Ok((cells, outcomes))
    }

    fn table_of(
        &self,
        py: Python<'_>,
        make: impl FnOnce(&Outcomes) -> Result<results::Table, Failure> + Send,
    ) -> PyResult<Table> {
        let made = without_gil(py, || {
            let (_, outcomes) = self.read()?;
            from_table(&make(&outcomes)?)
        });
        Ok(Table::from(made?))
    }
}

#[pymethods]
impl Study {
    /// Read a study file; its runs go to `out`.
    #[staticmethod]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        changes: Option<&Bound<'_, PyDict>>,
        out: Option<PathBuf>,
    ) -> PyResult<Study> {
        let changes = to_overrides(changes)?;
        let load = || -> Result<Study, Failure> {
            let study = fedcast::study::Study::load(&path)?;
            let directory = StudyDirectory::new(out.unwrap_or_else(|| study.default_directory()));
            directory.refuse_run()?;
            let overrides = overrides(&study, &changes)?;
            Ok(Study { study, directory, overrides, methods: Registry::builtin() })
        };
        without_gil(py, load)
    }

    /// Label of the study.
    #[getter]
    fn name(&self) -> &str {
        &self.study.name
    }

    /// Directory of the study.
    #[getter]
    fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    /// Label, seed, state and directory of every cell.
    fn cells(&self, py: Python<'_>) -> PyResult<Vec<CellRow>> {
        let (_, outcomes) = without_gil(py, || self.read())?;
        let cells = outcomes.all.iter().map(|outcome| {
            let error = match &outcome.state {
                CellState::Failed(failure) => Some(failure.error.clone()),
                _ => None,
            };
            let label = self.study.label(&outcome.cell.point).to_string();
            let path = self.directory.run(&outcome.cell);
            (label, outcome.cell.replicate.label, outcome.state.word(), path, error)
        });
        Ok(cells.collect())
    }

    /// Run the cells that are left; see `fedcast.Study.run`.
    fn run(
        &self,
        py: Python<'_>,
        jobs: Option<u32>,
        only: Vec<String>,
        retry_failed: bool,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let Study { study, directory, methods, .. } = self;
        let (sender, reports) = channel();
        let stop = Interrupt::default();
        let audience = Audience { reports: Mutex::new(reports), callback };
        attend(py, &stop.clone(), audience, move || {
            let only = Only::parse(&only, study)?;
            let (cells, mut outcomes) = self.read()?;
            let wanted: Vec<bool> =
                cells.iter().map(|prepared| only.has(study, &prepared.cell)).collect();
            outcomes.refuse_foreign(directory, &wanted)?;
            let pool = ProcessPool { stop, ..ProcessPool::of(study, &cells, jobs) };
            let order = study.run.order;
            let queue = Queue::of(&cells, &outcomes, order, retry_failed, &wanted, methods);
            write(study, directory, &outcomes)?;
            let (mut ended, left) = (0, queue.cells.len());
            pool.execute(&queue.cells, directory, |event| {
                let (event, prepared, took) = match event {
                    StudyEvent::Running => return Ok(()),
                    StudyEvent::Started(prepared) => ("begun", prepared, None),
                    StudyEvent::Taken(prepared) => ("taken", prepared, None),
                    StudyEvent::Ended(prepared, how, took) => {
                        let event = match how {
                            Ended::Done => "done",
                            Ended::Failed(_) => "failed",
                            Ended::Interrupted => "interrupted",
                        };
                        outcomes.refresh_one(&prepared.cell, directory);
                        (event, prepared, Some(took.as_secs_f64()))
                    }
                };
                ended += usize::from(event != "begun");
                let label = study.label(&prepared.cell.point).to_string();
                let seed = prepared.cell.replicate.label;
                let report = CellReport { event, label, seed, wall_s: took, ended, cells: left };
                // The receiver lives as long as the study runs.
                let _ = sender.send(report);
                Ok(())
            })?;
            outcomes.refresh(directory);
            Ok(write(study, directory, &outcomes)?)
        })
    }

    /// Table `table.csv`.
    fn table(&self, py: Python<'_>) -> PyResult<Table> {
        self.table_of(py, |outcomes| Ok(MainTable::of(&self.study, outcomes).to_table()))
    }

    /// Table `cells.csv`.
    fn cells_table(&self, py: Python<'_>) -> PyResult<Table> {
        self.table_of(py, |outcomes| Ok(cells_table(&self.study, outcomes)))
    }

    /// Table `rounds.csv`.
    fn rounds(&self, py: Python<'_>) -> PyResult<Table> {
        self.table_of(py, |outcomes| Ok(rounds_table(&self.study, outcomes)?))
    }

    /// Table `paired.csv`.
    fn paired(&self, py: Python<'_>) -> PyResult<Table> {
        self.table_of(py, |outcomes| Ok(paired_table(&self.study, outcomes)))
    }
}
