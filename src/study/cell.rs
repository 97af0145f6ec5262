//! Cells of a study: points of the grid and extra ones, each with every seed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::names::OWN_NAMES;
use super::seeds::Replicate;
use super::{AxisArm, Baseline, CellSettings, Pick, Study};
use crate::files::cleaned;
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
    /// Returns the grid without excluded cells, as an arm for every axis; the last axis changes fastest.
    pub(super) fn grid(&self) -> Vec<Vec<usize>> {
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
        grid
    }

    /// Returns every point that has a scenario, those of the grid first; the last axis changes fastest.
    pub fn points(&self) -> Vec<Point> {
        let mut grid = self.grid();
        grid.retain(|arms| self.file(arms).is_some());
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
            // Labels may differ only in characters that file names cannot hold, or be the name of a table.
            let is_taken = |folder: &str| {
                let others = folders.iter().map(String::as_str).chain(OWN_NAMES);
                others.into_iter().any(|other| other.eq_ignore_ascii_case(folder))
            };
            while is_taken(&folder) {
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

    /// Returns the axes whose arms are compared with each other: those of the baseline, else those with named arms.
    ///
    /// Points that differ on no other axis are compared; all are if no axis is returned.
    pub fn compared_axes(&self) -> Vec<usize> {
        match &self.compare.baseline {
            Some(Baseline::Arms(picks)) => picks.iter().map(|pick| pick.axis).collect(),
            _ => (0..self.axes.len()).filter(|axis| self.axes[*axis].key.is_none()).collect(),
        }
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

    /// Returns the entries of `[[cell]]` that match the arms of a grid cell, in order.
    fn matching<'a>(
        &'a self,
        arms: &'a [usize],
    ) -> impl DoubleEndedIterator<Item = &'a CellSettings> {
        self.settings.iter().filter(move |entry| entry.apply_to(arms))
    }

    /// Returns the scenario file of a grid cell, if it has one.
    fn file<'a>(&'a self, arms: &'a [usize]) -> Option<&'a Path> {
        let own = self.matching(arms).rev().find_map(|entry| entry.scenario.as_deref());
        own.or(self.base.as_deref())
    }

    /// Returns the scenario of a cell: its file with all changes, of which later ones replace earlier ones.
    ///
    /// They are `set` of the study, arms in the order of the axes, `[[cell]]`, `overrides` of the command line, and
    /// seeds.
    ///
    /// # Errors
    /// Fails if file and changes together give no valid scenario; errors point into the file at fault.
    pub fn scenario(
        &self,
        cell: &Cell,
        overrides: &[Override],
        methods: &Registry,
    ) -> Result<Loaded, ScenarioError> {
        let arms: &[usize] = match &cell.point {
            Point::Grid(arms) => arms,
            Point::Extra(_) => &[],
        };
        let mut sets: Vec<Changes> = vec![self.set.clone()];
        match &cell.point {
            Point::Grid(arms) => {
                let chosen = self.axes.iter().zip(arms).map(|(axis, arm)| &axis.arms[*arm]);
                sets.extend(chosen.map(|arm| arm.changes.clone()));
                sets.extend(self.matching(arms).map(|entry| entry.set.clone()));
            }
            Point::Extra(index) => sets.push(self.extras[*index].set.clone()),
        }
        let overrides: Vec<Override> =
            overrides.iter().cloned().chain(cell.replicate.overrides()).collect();
        let changed = Changed { origin: &self.origin, sets: &sets };
        let file = self.file(arms).unwrap_or(Path::new(""));
        let loaded = Scenario::load_changed(file, Some(changed), &overrides, methods);
        let mut loaded = loaded.map_err(|error| self.at_entry(file, error))?;
        self.publish(&mut loaded, arms, &overrides);
        let seed = cell.replicate.label;
        loaded.scenario.name = format!("{}: {}, seed {seed}", self.name, self.label(&cell.point));
        Ok(loaded)
    }

    /// Points the error of an unreadable file to the entry of `[[cell]]` that names it, or to `base`.
    fn at_entry(&self, file: &Path, error: ScenarioError) -> ScenarioError {
        let ScenarioError::Unreadable { path, source, help } = &error else { return error };
        let message = format!("cannot read the scenario {}: {source}", cleaned(path).display());
        let relative = |key: &str| match source.kind() {
            ErrorKind::NotFound => format!(
                "`{key}` is relative to the folder of this study file: copy the scenario to that path, too, or write \
                 an absolute path"
            ),
            _ => help.clone(),
        };
        let names = |entry: &CellSettings| entry.scenario.as_deref() == Some(file);
        match self.settings.iter().position(names) {
            Some(index) => {
                let key = "scenario";
                self.origin.error_in(("cell", index, key), &message, "this file", &relative(key))
            }
            None if self.base.as_deref() == Some(file) => {
                self.origin.error_at("base", &message, "this file", &relative("base"))
            }
            None => error,
        }
    }

    /// Replaces the published numbers of a scenario by those of its cell, if `[[cell]]` has any.
    ///
    /// These already include the arms that their entry names, and changes of entries that name no other arms. All other
    /// changes are noted, since they make the cell differ from the one in the paper.
    fn publish(&self, loaded: &mut Loaded, arms: &[usize], overrides: &[Override]) {
        let published = self.matching(arms).rev().find_map(|e| Some((e, e.expected.as_ref()?)));
        let Some((entry, expected)) = published else { return };
        let named = |axis: usize| entry.arms.iter().any(|pick| pick.axis == axis);
        let chosen = self.axes.iter().zip(arms).enumerate().filter(|(axis, _)| !named(*axis));
        let arms_left = chosen.map(|(_, (axis, arm))| &axis.arms[*arm].changes);
        let entries_left = self.matching(arms).filter(|other| !other.is_within(&entry.arms));
        let others = std::iter::once(&self.set).chain(arms_left);
        let others = others.chain(entries_left.map(|other| &other.set));
        let mut noted: Vec<Override> =
            others.filter(|set| !set.sets_expected()).flat_map(Changes::overrides).collect();
        noted.extend_from_slice(overrides);
        noted.retain(|change| loaded.is_changed_by(change));
        let scenario = &mut loaded.scenario;
        let source = scenario.expected.source.take();
        scenario.expected = expected.clone();
        if !scenario.expected.is_empty() {
            scenario.expected.source = scenario.expected.source.take().or(source);
        }
        scenario.expected.changed_by(&noted);
    }

    /// Keeps a cell's features in the study's shared folder instead of in memory, if the study shares them.
    pub(super) fn share(&self, scenario: &mut Scenario, folder: PathBuf) {
        if self.run.share_features && scenario.cache.features == CachePlace::Memory {
            scenario.cache.features = CachePlace::File;
            scenario.cache.folder = Some(folder);
        }
    }
}
