//! Cells of a study: points of the grid and extra ones, each with every seed.

use std::path::PathBuf;

use super::seeds::Replicate;
use super::{AxisArm, Pick, Study};
use crate::methods::Registry;
use crate::scenario::{CachePlace, Changed, Changes, Loaded, Override, Scenario, ScenarioError};

/// Cells that differ only in their seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    /// Point of the grid: the index of an arm for every axis.
    Grid(Vec<usize>),
    /// Extra cell, by its index.
    Extra(usize),
}

/// One run of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Index from 0, in the order of the study file, seeds changing fastest.
    pub index: usize,
    /// Point of the grid, or extra cell.
    pub point: Point,
    /// Seeds of the run.
    pub replicate: Replicate,
    /// Run directory relative to the study's, such as `clients=100,method=hgp/seed-2`.
    pub path: PathBuf,
}

/// Length to which names of folders are cut.
const LONGEST: usize = 120;

impl Study {
    /// Returns every point, those of the grid first; the last axis changes fastest.
    pub fn points(&self) -> Vec<Point> {
        let mut grid = vec![Vec::new()];
        for axis in &self.axes {
            let longer = |arms: Vec<usize>| {
                (0..axis.arms.len()).map(move |arm| [arms.as_slice(), &[arm]].concat())
            };
            grid = grid.into_iter().flat_map(longer).collect();
        }
        let fits =
            |arms: &[usize], picks: &[Pick]| picks.iter().all(|pick| arms[pick.axis] == pick.arm);
        grid.retain(|arms| !self.excluded.iter().any(|picks| fits(arms, picks)));
        // Without axes the base itself is the grid, unless there are extra cells.
        if self.axes.is_empty() && !self.extras.is_empty() {
            grid.clear();
        }
        let extras = (0..self.extras.len()).map(Point::Extra);
        grid.into_iter().map(Point::Grid).chain(extras).collect()
    }

    /// Returns every cell.
    pub fn cells(&self) -> Vec<Cell> {
        let mut folders: Vec<String> = Vec::new();
        let mut cells = Vec::new();
        for point in self.points() {
            let mut folder = self.folder(&point);
            // Labels may differ only in characters that file names cannot hold.
            while folders.iter().any(|other| other.eq_ignore_ascii_case(&folder)) {
                folder.push('~');
            }
            for replicate in &self.replicates {
                cells.push(Cell {
                    index: cells.len(),
                    point: point.clone(),
                    replicate: replicate.clone(),
                    path: PathBuf::from(&folder).join(format!("seed-{}", replicate.label)),
                });
            }
            folders.push(folder);
        }
        cells
    }

    /// Returns the arm of a point on an axis; `None` for an extra cell.
    pub fn arm(&self, point: &Point, axis: usize) -> Option<&AxisArm> {
        match point {
            Point::Grid(arms) => Some(&self.axes[axis].arms[arms[axis]]),
            Point::Extra(_) => None,
        }
    }

    /// Returns a label such as `clients=100, method=hgp`, or that of an extra cell.
    pub fn label(&self, point: &Point) -> String {
        match point {
            Point::Grid(_) if self.axes.is_empty() => "base".to_owned(),
            Point::Grid(arms) => {
                let pair = |(axis, arm): (usize, &usize)| {
                    format!("{}={}", self.axes[axis].name, self.axes[axis].arms[*arm].label)
                };
                arms.iter().enumerate().map(pair).collect::<Vec<_>>().join(", ")
            }
            Point::Extra(index) => self.extras[*index].label.clone(),
        }
    }

    fn folder(&self, point: &Point) -> String {
        let keep =
            |c: char| if c.is_ascii_alphanumeric() || "=,._+-".contains(c) { c } else { '-' };
        let label = self.label(point).replace(", ", ",");
        let mut folder: String = label.chars().map(keep).collect();
        if folder.len() > LONGEST {
            folder.truncate(LONGEST - 9);
            folder.push('~');
            folder.push_str(&blake3::hash(label.as_bytes()).to_hex()[..8]);
        }
        // No hidden folders, and none that points elsewhere.
        if folder.starts_with('.') { folder.replacen('.', "-", 1) } else { folder }
    }

    /// Returns the run directory of a point and a seed, relative to the study's directory.
    pub fn run_path(&self, point: &Point, seed: u64) -> Option<PathBuf> {
        let cells = self.cells();
        let found = cells.into_iter().find(|c| c.point == *point && c.replicate.label == seed);
        found.map(|cell| cell.path)
    }

    /// Returns the scenario of a cell: the base, `set`, the arms, `overrides` of the command line, the seeds.
    ///
    /// # Errors
    /// Fails if base and changes together give no valid scenario; errors point into the file at fault.
    pub fn scenario(
        &self,
        cell: &Cell,
        overrides: &[Override],
        methods: &Registry,
    ) -> Result<Loaded, ScenarioError> {
        let mut sets: Vec<Changes> = vec![self.set.clone()];
        match &cell.point {
            Point::Grid(arms) => {
                let arms = self.axes.iter().zip(arms).map(|(axis, arm)| &axis.arms[*arm]);
                sets.extend(arms.map(|arm| arm.changes.clone()));
            }
            Point::Extra(index) => sets.push(self.extras[*index].set.clone()),
        }
        let overrides: Vec<Override> =
            overrides.iter().cloned().chain(cell.replicate.overrides()).collect();
        let changed = Changed { origin: &self.origin, sets: &sets };
        let mut loaded = Scenario::load_changed(&self.base, Some(changed), &overrides, methods)?;
        let seed = cell.replicate.label;
        loaded.scenario.name = format!("{}: {}, seed {seed}", self.name, self.label(&cell.point));
        Ok(loaded)
    }

    /// Keeps a cell's features in the study's shared folder instead of in memory, if the study shares them.
    pub(super) fn share(&self, scenario: &mut Scenario, folder: PathBuf) {
        if self.run.share_features && scenario.cache.features == CachePlace::Memory {
            scenario.cache.features = CachePlace::File;
            scenario.cache.folder = Some(folder);
        }
    }
}
