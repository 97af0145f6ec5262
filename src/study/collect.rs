//! Results of all cells, each read once.

use std::collections::BTreeMap;

use super::directory::{CellFailure, CellState, StudyDirectory};
use super::prepare::PreparedCell;
use super::{Cell, Pace, Point, Study, StudyError};
use crate::methods::Registry;
use crate::results::{Metric, RunRecord};
use crate::scenario::ExpectedSection;

/// A cell with its state and results.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Cell of the study.
    pub cell: Cell,
    /// Hash of the cell's scenario.
    pub hash: String,
    /// State of the cell, as last read from its files.
    pub state: CellState,
    /// Published numbers of the cell, with the changes that they do not include.
    pub expected: ExpectedSection,
    /// Run of the cell, once it is complete.
    pub run: Option<RunRecord>,
    /// Metrics in the study's tables, by name.
    pub(super) figures: BTreeMap<String, Option<f64>>,
}

impl Outcome {
    /// Returns a metric of the run, if the run exists and has it.
    pub fn figure(&self, metric: &Metric) -> Option<f64> {
        match self.figures.get(metric.name()) {
            Some(known) => *known,
            None => self.run.as_ref()?.figure(metric),
        }
    }

    /// Reads the cell again, unless it is known to be done.
    fn refresh(&mut self, directory: &StudyDirectory, metrics: &[Metric], methods: &Registry) {
        if self.run.is_some() {
            return;
        }
        self.state = directory.state(&self.cell, &self.hash);
        if self.state != CellState::Done {
            return;
        }
        match RunRecord::read_with(&directory.run(&self.cell), methods) {
            Ok(run) => {
                let names = metrics.iter().map(|metric| metric.name().to_owned());
                self.figures = names.zip(run.figures(metrics)).collect();
                self.run = Some(run);
            }
            // One damaged run must not prevent the tables of the others.
            Err(error) => {
                let (hash, error) = (self.hash.clone(), error.to_string());
                self.state = CellState::Failed(CellFailure { hash, exit: None, error });
            }
        }
    }
}

/// Outcomes of a study, in the order of its cells. Complete runs are read once.
#[derive(Clone, Debug)]
pub struct Outcomes {
    /// One outcome per cell.
    pub all: Vec<Outcome>,
    pub(super) metrics: Vec<Metric>,
    pub(super) methods: Registry,
}

impl Outcomes {
    /// Reads the outcomes of these cells from the directory.
    pub fn read(
        study: &Study,
        cells: &[PreparedCell],
        directory: &StudyDirectory,
        methods: &Registry,
    ) -> Outcomes {
        let unknown = |prepared: &PreparedCell| Outcome {
            cell: prepared.cell.clone(),
            hash: prepared.hash.clone(),
            expected: prepared.scenario.expected.clone(),
            state: CellState::Waiting,
            run: None,
            figures: BTreeMap::new(),
        };
        let all = cells.iter().map(unknown).collect();
        let mut outcomes = Outcomes { all, metrics: study.metrics(), methods: methods.clone() };
        outcomes.refresh(directory);
        outcomes
    }

    /// Checks that no wanted cell's directory holds a run of another scenario.
    ///
    /// # Errors
    /// Fails with [`StudyError::OtherScenario`] for the first such run.
    pub fn refuse_foreign(
        &self,
        directory: &StudyDirectory,
        wanted: &[bool],
    ) -> Result<(), StudyError> {
        let outcomes = self.all.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        let mut foreign = outcomes.filter_map(|(outcome, _)| match &outcome.state {
            CellState::Foreign(found) => Some((directory.run(&outcome.cell), found.clone())),
            _ => None,
        });
        match foreign.next() {
            None => Ok(()),
            Some((path, found)) => {
                Err(StudyError::OtherScenario { path, found, more: foreign.count() })
            }
        }
    }

    /// Reads every cell again that was not done.
    pub fn refresh(&mut self, directory: &StudyDirectory) {
        let Outcomes { all, metrics, methods } = self;
        all.iter_mut().for_each(|outcome| outcome.refresh(directory, metrics, methods));
    }

    /// Reads one cell again, while others still run.
    pub fn refresh_one(&mut self, cell: &Cell, directory: &StudyDirectory) {
        if let Some(outcome) = self.all.iter_mut().find(|outcome| outcome.cell.index == cell.index)
        {
            outcome.refresh(directory, &self.metrics, &self.methods);
        }
    }

    /// Returns the outcomes of one point, in the order of seeds.
    pub fn of<'a>(&'a self, point: &'a Point) -> impl Iterator<Item = &'a Outcome> {
        self.all.iter().filter(move |outcome| outcome.cell.point == *point)
    }

    /// Returns a metric of the complete runs of a point, with their seeds.
    pub fn figures(&self, point: &Point, metric: &Metric) -> Vec<(u64, f64)> {
        let figure =
            |outcome: &Outcome| Some((outcome.cell.replicate.label, outcome.figure(metric)?));
        self.of(point).filter_map(figure).collect()
    }

    /// Returns the number of cells in the state with this word.
    pub fn count(&self, word: &str) -> usize {
        self.all.iter().filter(|outcome| outcome.state.word() == word).count()
    }

    /// Returns the fitted durations of finished cells.
    pub fn pace(&self) -> Pace {
        let mut pace = Pace::default();
        let (passes, wall) = (metric("sample_passes"), metric("wall_s"));
        for outcome in &self.all {
            if let (Some(run), Some(passes), Some(wall)) =
                (&outcome.run, outcome.figure(&passes), outcome.figure(&wall))
            {
                pace.learn(&run.manifest.method, passes, wall);
            }
        }
        pace
    }
}

impl Study {
    /// Returns every metric in tables of this study, those with fixed names first.
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = Metric::all().collect();
        for wanted in self.compare.metrics.iter().chain(&self.compare.warn_if_unequal) {
            if !metrics.contains(wanted) {
                metrics.push(wanted.clone());
            }
        }
        metrics
    }
}

fn metric(name: &str) -> Metric {
    Metric::parse(name).expect("a name of the catalogue")
}
