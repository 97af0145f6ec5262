//! What all cells left behind, read once each.

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
}

/// The outcomes of a study, in the order of its cells. What is done is read once.
#[derive(Clone, Debug)]
pub struct Outcomes {
    pub all: Vec<Outcome>,
}

impl Outcomes {
    /// Of these cells, as the directory has them.
    pub fn read(cells: &[Prepared], directory: &StudyDirectory) -> Outcomes {
        let unknown = |prepared: &Prepared| Outcome {
            cell: prepared.cell.clone(),
            hash: prepared.hash.clone(),
            state: CellState::Waiting,
            run: None,
        };
        let mut outcomes = Outcomes { all: cells.iter().map(unknown).collect() };
        outcomes.refresh(directory);
        outcomes
    }

    /// Looks again at every cell that was not done.
    pub fn refresh(&mut self, directory: &StudyDirectory) {
        for outcome in self.all.iter_mut().filter(|outcome| outcome.run.is_none()) {
            outcome.state = directory.state(&outcome.cell, &outcome.hash);
            if outcome.state != CellState::Done {
                continue;
            }
            match RunRecord::read(&directory.run(&outcome.cell)) {
                Ok(run) => outcome.run = Some(run),
                // One damaged run must not take the tables of all others with it.
                Err(error) => {
                    let (hash, error) = (outcome.hash.clone(), error.to_string());
                    outcome.state = CellState::Failed(Failure { hash, exit: None, error });
                }
            }
        }
    }

    /// Of one point, in the order of seeds.
    pub fn of<'a>(&'a self, point: &'a Point) -> impl Iterator<Item = &'a Outcome> {
        self.all.iter().filter(move |outcome| outcome.cell.point == *point)
    }

    /// A figure of the done runs of a point, with their seeds.
    pub fn figures(&self, point: &Point, metric: &Metric) -> Vec<(u64, f64)> {
        let figure = |outcome: &Outcome| {
            Some((outcome.cell.replicate.label, outcome.run.as_ref()?.figure(metric)?))
        };
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
        for run in self.all.iter().filter_map(|outcome| outcome.run.as_ref()) {
            if let (Some(passes), Some(wall)) = (run.figure(&passes), run.figure(&wall)) {
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
