//! What all cells left behind, read once each.

use std::collections::BTreeMap;

use super::directory::{CellState, Failure, StudyDirectory};
use super::prepare::Prepared;
use super::{Cell, Pace, Point, Study};
use crate::results::{Metric, RunRecord};

/// A cell and what became of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub cell: Cell,
    /// Of its scenario.
    pub hash: String,
    pub state: CellState,
    /// Its run, once that is done.
    pub run: Option<RunRecord>,
    /// Its figures in the study's tables, by the names of metrics.
    pub(super) figures: BTreeMap<String, Option<f64>>,
}

impl Outcome {
    /// A figure of the run, if there is one that has it.
    pub fn figure(&self, metric: &Metric) -> Option<f64> {
        match self.figures.get(metric.name()) {
            Some(known) => *known,
            None => self.run.as_ref()?.figure(metric),
        }
    }

    /// Looks again, unless it is known to be done.
    fn refresh(&mut self, directory: &StudyDirectory, metrics: &[Metric]) {
        if self.run.is_some() {
            return;
        }
        self.state = directory.state(&self.cell, &self.hash);
        if self.state != CellState::Done {
            return;
        }
        match RunRecord::read(&directory.run(&self.cell)) {
            Ok(run) => {
                let names = metrics.iter().map(|metric| metric.name().to_owned());
                self.figures = names.zip(run.figures(metrics)).collect();
                self.run = Some(run);
            }
            // One damaged run must not take the tables of all others with it.
            Err(error) => {
                let (hash, error) = (self.hash.clone(), error.to_string());
                self.state = CellState::Failed(Failure { hash, exit: None, error });
            }
        }
    }
}

/// The outcomes of a study, in the order of its cells. What is done is read once.
#[derive(Clone, Debug)]
pub struct Outcomes {
    pub all: Vec<Outcome>,
    pub(super) metrics: Vec<Metric>,
}

impl Outcomes {
    /// Of these cells of a study, as the directory has them.
    pub fn read(study: &Study, cells: &[Prepared], directory: &StudyDirectory) -> Outcomes {
        let unknown = |prepared: &Prepared| Outcome {
            cell: prepared.cell.clone(),
            hash: prepared.hash.clone(),
            state: CellState::Waiting,
            run: None,
            figures: BTreeMap::new(),
        };
        let all = cells.iter().map(unknown).collect();
        let mut outcomes = Outcomes { all, metrics: study.metrics() };
        outcomes.refresh(directory);
        outcomes
    }

    /// Looks again at every cell that was not done.
    pub fn refresh(&mut self, directory: &StudyDirectory) {
        self.all.iter_mut().for_each(|outcome| outcome.refresh(directory, &self.metrics));
    }

    /// Looks again at one cell, while others still run.
    pub fn refresh_one(&mut self, cell: &Cell, directory: &StudyDirectory) {
        if let Some(outcome) = self.all.iter_mut().find(|outcome| outcome.cell.index == cell.index)
        {
            outcome.refresh(directory, &self.metrics);
        }
    }

    /// Of one point, in the order of seeds.
    pub fn of<'a>(&'a self, point: &'a Point) -> impl Iterator<Item = &'a Outcome> {
        self.all.iter().filter(move |outcome| outcome.cell.point == *point)
    }

    /// A figure of the done runs of a point, with their seeds.
    pub fn figures(&self, point: &Point, metric: &Metric) -> Vec<(u64, f64)> {
        let figure =
            |outcome: &Outcome| Some((outcome.cell.replicate.label, outcome.figure(metric)?));
        self.of(point).filter_map(figure).collect()
    }

    /// How many cells are in a state of this word.
    pub fn count(&self, word: &str) -> usize {
        self.all.iter().filter(|outcome| outcome.state.word() == word).count()
    }

    /// How long finished cells took.
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
    /// Every metric that stands in tables of this study, those with fixed names first.
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
