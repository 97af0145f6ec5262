//! Content of a page: runs sorted into arms, the baseline of each, and the plots.

use std::path::{Path, PathBuf};

use super::axes::{arrange, axes, baselines, numeric, values};
use super::options::{CellRecord, ReportOptions};
use crate::experiment::{DirectoryError, Status};
use crate::methods::Registry;
use crate::report::Summary;
use crate::results::{Arm, FoundRuns, Metric, Repeat, ResultsError, RunInversion, RunRecord};
use crate::study::tables::PublishedGrids;
use crate::study::{CellState, Plot, StudyError, shown_arm};

/// Most series in one chart, the number of colors.
const MOST_SERIES: usize = 8;

/// Data shown on a page.
#[derive(Clone, Debug)]
pub struct PageContent {
    /// Name of the study, or of the scenario.
    pub title: String,
    /// Arms in the order of their paths.
    pub arms: Vec<Arm>,
    /// Baseline of every arm; `None` for baselines, and if there is none.
    pub baselines: Vec<Option<usize>>,
    /// Axis shown horizontally, if one has several values.
    pub x: Option<String>,
    /// Axis with one line per arm, if a study names one; each arm of other axes has its own figure.
    pub lines: Option<String>,
    /// Axes whose arms are compared with each other: those of the study, else all but `x`.
    pub compared: Vec<String>,
    /// Columns of the main table.
    pub metrics: Vec<Metric>,
    /// Metrics for which a note is shown if arms differ.
    pub unequal: Vec<Metric>,
    /// Plots to draw; empty for the default ones.
    pub plots: Vec<Plot>,
    /// Grids of published and measured numbers of a study.
    pub grids: PublishedGrids,
    /// Inversions of uploads in the runs' directories, with the number of the run's arm.
    pub inversions: Vec<(usize, RunInversion)>,
    /// Names in print of arms, by label.
    pub names: Vec<(String, String)>,
    /// Cells of a study that are not done, with or without a run.
    pub undone: Vec<Undone>,
    /// Runs in the folders that are left out, with the reason.
    pub left_out: Vec<String>,
    /// Methods of the program, for the defaults of their keys.
    pub methods: Registry,
}

/// Cell that is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// Path of the cell's run directory.
    pub name: String,
    /// Status of the cell; of a run outside of a study, the status in its manifest.
    pub status: String,
    /// Error message of the run, else of the cell; empty if there is none.
    pub error: String,
}

/// Default metrics of a page.
const USUAL: [&str; 6] =
    ["faa", "average_incremental", "forgetting_from_best", "bytes_down", "bytes_up", "virtual_s"];

impl PageContent {
    /// Reads all runs in or below the folders.
    ///
    /// `against` names the baseline by arms on axes, such as `method=fedavg`; the registry has the methods of the runs.
    ///
    /// # Errors
    ///
    /// Fails if a file of a run or study is damaged.
    pub fn gather(
        roots: &[PathBuf],
        against: &[(String, String)],
        methods: &Registry,
    ) -> Result<PageContent, StudyError> {
        let mut options = ReportOptions::unasked()?;
        let mut runs = Vec::new();
        let mut undone = Vec::new();
        let mut cells = Vec::new();
        let mut left_out = Vec::new();
        for root in roots {
            let here = ReportOptions::of(root)?;
            let mut strangers = 0;
            let FoundRuns { runs: found, other_formats } = FoundRuns::below(root, methods)?;
            // The page names the runs; the advice on what to do belongs to the command line.
            let named = |error: &DirectoryError| error.to_string().lines().take(1).collect();
            left_out.extend(other_formats.iter().map(named));
            for run in found {
                if runs.iter().any(|known: &RunRecord| known.path == run.path) {
                    continue;
                }
                match here.cell(root, &run) {
                    // A run of the cell as it was before the study or its base was changed.
                    Some(cell) if cell.status == CellState::FOREIGN => {
                        undone.push(Undone::of_cell(cell, root));
                        continue;
                    }
                    Some(cell) => cells.push((run.path.clone(), cell.clone())),
                    // Cells of an earlier version of the study file.
                    None if here.study.is_some() => {
                        strangers += 1;
                        continue;
                    }
                    None => {}
                }
                undone.extend(Undone::of_run(&run, &here, root));
                runs.push(run);
            }
            undone.extend(Undone::without_run(&here, root));
            left_out.extend(foreign(root, strangers));
            if options.study.is_none() {
                options = here;
            }
        }
        if !against.is_empty() {
            (options.against, options.against_label) = (against.to_vec(), None);
        }
        let cell_of = |run: &RunRecord| cells.iter().find(|(path, _)| *path == run.path);
        let mut arms =
            Arm::sort_cells(runs, |run| cell_of(run).map(|(_, cell)| cell.label.clone()));
        left_out.extend(arms.iter().flat_map(|arm| &arm.repeats).map(Repeat::to_string));
        // Arms of a study are in the order of its cells, which is that of its file.
        let order = |arm: &Arm| {
            let place =
                |run: &RunRecord| options.cells.iter().position(|c| run.path.ends_with(&c.path));
            arm.runs.iter().filter_map(place).min().unwrap_or(usize::MAX)
        };
        arms.sort_by_key(order);
        let mut labels = vec![String::new(); arms.len()];
        for (arm, label) in arms.iter_mut().zip(&mut labels) {
            if let Some((_, cell)) = arm.runs.iter().find_map(cell_of) {
                label.clone_from(&cell.label);
                arm.axes = match cell.axes.is_empty() {
                    // An extra cell is on no axis.
                    true => vec![(Arm::CELL.to_owned(), cell.label.clone())],
                    false => cell.axes.clone(),
                };
            }
        }
        arrange(&mut arms, &mut labels);
        let x = options.x.clone().filter(|x| lies_along(&arms, x)).or_else(|| numeric(&arms));
        let baselines = baselines(&arms, &labels, &options, x.as_deref());
        let mut inversions = Vec::new();
        for (at, arm) in arms.iter().enumerate() {
            for run in &arm.runs {
                inversions.extend(RunInversion::of(run)?.into_iter().map(|found| (at, found)));
            }
        }
        let name = || Some(arms.first()?.runs.first()?.manifest.scenario.name.clone());
        let title = options.study.clone().or_else(name).unwrap_or_else(|| "no runs".to_owned());
        let compared = options.compared.unwrap_or_else(|| {
            axes(&arms).into_iter().filter(|axis| Some(axis) != x.as_ref()).collect()
        });
        Ok(PageContent {
            methods: methods.clone(),
            compared,
            title,
            baselines,
            lines: options.series.filter(|series| Some(series) != x.as_ref()),
            x,
            metrics: shown(options.metrics, &arms)?,
            unequal: options.unequal,
            plots: options.plots,
            grids: options.grids,
            inversions,
            names: options.names,
            undone,
            left_out,
            arms,
        })
    }

    /// Returns the arms that are compared with an arm, itself among them: they differ on compared axes only.
    ///
    /// An arm outside of the grid is compared with no other.
    pub fn comparable(&self, arm: usize) -> Vec<usize> {
        let others = |arm: usize| {
            let axes = self.arms[arm].axes.iter();
            axes.filter(|(axis, _)| !self.compared.contains(axis)).collect::<Vec<_>>()
        };
        (0..self.arms.len()).filter(|other| others(*other) == others(arm)).collect()
    }

    /// Returns true if curves and histograms have one figure per value of `x`.
    ///
    /// This needs axes other than `x`, and either numbers as values of `x` or more arms than fit one figure.
    fn is_divided(&self) -> bool {
        let Some(x) = &self.x else { return false };
        let others = has_other_axes(&self.arms, x);
        others && (is_numeric(&self.values(x)) || self.arms.len() > MOST_SERIES)
    }

    /// Returns the arms of each figure of curves, at most a chart's worth, with the figure's name.
    pub fn charts(&self) -> Vec<(String, Vec<usize>)> {
        let all: Vec<usize> = (0..self.arms.len()).collect();
        let of = |value: &str| -> Vec<usize> {
            let x = self.x.as_deref().unwrap_or_default();
            all.iter().copied().filter(|arm| self.arms[*arm].axis(x) == Some(value)).collect()
        };
        let divided = self.x.as_ref().filter(|_| self.is_divided());
        let mut charts: Vec<(String, Vec<usize>)> = match divided {
            None => vec![(String::new(), all.clone())],
            Some(x) => {
                let values = values(&self.arms, x);
                values.iter().map(|value| (format!("{x}={value}"), of(value))).collect()
            }
        };
        let met: Vec<usize> = charts.iter().flat_map(|(_, arms)| arms.clone()).collect();
        let rest: Vec<usize> = all.into_iter().filter(|arm| !met.contains(arm)).collect();
        if !rest.is_empty() {
            charts.push(("other cells".to_owned(), rest));
        }
        let split = |(name, arms): &(String, Vec<usize>)| {
            let parts = arms.len().div_ceil(MOST_SERIES);
            let part = |(part, arms): (usize, &[usize])| {
                let name = if parts > 1 {
                    format!("{name} ({} of {parts})", part + 1)
                } else {
                    name.clone()
                };
                (name.trim().to_owned(), arms.to_vec())
            };
            arms.chunks(MOST_SERIES).enumerate().map(part).collect::<Vec<_>>()
        };
        charts.iter().flat_map(split).collect()
    }

    /// Returns the arms of each figure of metrics, with the values that they have in common.
    ///
    /// All arms are in one figure unless there are axes other than `x` and that of the lines. An arm without a value
    /// of `x` belongs to every figure.
    pub fn figures(&self) -> Vec<(String, Vec<usize>)> {
        let all = 0..self.arms.len();
        let (Some(x), Some(lines)) = (&self.x, &self.lines) else {
            return vec![(String::new(), all.collect())];
        };
        let apart = |arm: usize| self.arms[arm].axis(x).is_none();
        let rest = |arm: usize| {
            let axes = self.arms[arm].axes.iter().filter(|(axis, _)| axis != x && axis != lines);
            axes.map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(", ")
        };
        let mut names: Vec<String> = Vec::new();
        for name in all.clone().filter(|arm| !apart(*arm)).map(rest) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.len() < 2 {
            return vec![(String::new(), all.collect())];
        }
        let of = |name: String| {
            let arms = all.clone().filter(|arm| apart(*arm) || rest(*arm) == name).collect();
            (name, arms)
        };
        names.into_iter().map(of).collect()
    }

    /// Returns the name of an arm in a figure of [`charts`](PageContent::charts).
    pub fn curve_name(&self, arm: usize) -> String {
        if self.is_divided() { self.series_name(arm) } else { self.name_without(arm, None) }
    }

    /// Returns the number of an arm in a figure of [`charts`](PageContent::charts), which gives its color.
    pub fn curve_number(&self, arm: usize) -> usize {
        if self.is_divided() { self.number(arm) } else { arm }
    }

    /// Returns the name of an arm without its value of `x`.
    pub fn series_name(&self, arm: usize) -> String {
        self.name_without(arm, self.x.as_ref())
    }

    fn name_without(&self, arm: usize, left_out: Option<&String>) -> String {
        let others = self.arms[arm].axes.iter().filter(|(axis, _)| Some(axis) != left_out);
        let mut others: Vec<(String, String)> = others.cloned().collect();
        others.sort_by_key(|(axis, _)| Some(axis) != self.lines.as_ref());
        match others.as_slice() {
            [] => {
                let run = self.arms[arm].runs.first();
                run.map_or_else(String::new, |run| self.shown(&run.manifest.method).to_owned())
            }
            // A bare number needs the name of its axis.
            [(axis, value)] if value.parse::<f64>().is_ok() => format!("{axis}={value}"),
            [(_, value)] => self.shown(value).to_owned(),
            others => {
                let pair = |(axis, value): &(String, String)| self.pair(axis, value);
                others.iter().map(pair).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Returns the name in print of an arm's label on an axis.
    pub fn shown<'a>(&'a self, label: &'a str) -> &'a str {
        shown_arm(&self.names, label)
    }

    /// Returns the name in print of an arm with all of its axes, such as `HGP, clients=100`.
    pub fn label(&self, arm: usize) -> String {
        self.label_on(arm, |_| true)
    }

    /// Returns the name of an arm among those that it is compared with: its compared axes, such as `HGP`.
    pub fn compared_label(&self, arm: usize) -> String {
        self.label_on(arm, |axis| self.compared.contains(axis))
    }

    /// Returns the name of an arm with some of its axes.
    fn label_on(&self, arm: usize, is_named: impl Fn(&String) -> bool) -> String {
        let axes = self.arms[arm].axes.iter().filter(|(axis, _)| is_named(axis));
        let pairs: Vec<String> = axes.map(|(axis, value)| self.pair(axis, value)).collect();
        if pairs.is_empty() { self.name_without(arm, None) } else { pairs.join(", ") }
    }

    /// Returns a value with its axis, such as `clients=100`; methods and names in print stand alone.
    fn pair(&self, axis: &str, value: &str) -> String {
        let shown = self.shown(value);
        let speaks = axis == "method" || axis == Arm::CELL || shown != value;
        if speaks { shown.to_owned() } else { format!("{axis}={value}") }
    }

    /// Returns the names of all series in the order of arms; a series has one color on the whole page.
    pub fn series(&self) -> Vec<String> {
        let mut names = Vec::new();
        for arm in 0..self.arms.len() {
            let name = self.series_name(arm);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Returns the number of an arm's series.
    pub fn number(&self, arm: usize) -> usize {
        let name = self.series_name(arm);
        self.series().iter().position(|known| *known == name).unwrap_or(0)
    }

    /// Returns true if all values of an axis are numbers.
    pub fn is_numeric(&self, axis: &str) -> bool {
        is_numeric(&self.values(axis))
    }

    /// Returns the values of an axis in order.
    pub fn values(&self, axis: &str) -> Vec<String> {
        values(&self.arms, axis)
    }
}

/// Returns true if metrics can be drawn over an axis.
///
/// The axis needs several values, which are numbers, or there are other axes. The arms of a single axis of words are
/// drawn next to each other.
fn lies_along(arms: &[Arm], axis: &str) -> bool {
    let values = values(arms, axis);
    values.len() > 1 && (is_numeric(&values) || has_other_axes(arms, axis))
}

fn is_numeric(values: &[String]) -> bool {
    values.iter().all(|value| value.parse::<f64>().is_ok())
}

/// Returns true if arms differ in another axis of the grid.
fn has_other_axes(arms: &[Arm], axis: &str) -> bool {
    let axes = arms.iter().flat_map(|arm| &arm.axes).map(|(axis, _)| axis);
    let mut others = axes.filter(|other| *other != axis && *other != Arm::CELL);
    others.any(|other| values(arms, other).len() > 1)
}

/// Returns the remark on runs in the folder of a study that are none of its cells.
fn foreign(root: &Path, runs: usize) -> Option<String> {
    let (runs, are) = match runs {
        0 => return None,
        1 => ("1 run".to_owned(), "is not a cell"),
        runs => (format!("{runs} runs"), "are not cells"),
    };
    Some(format!("{runs} below {} that {are} of the current study", root.display()))
}

impl Undone {
    fn of_run(run: &RunRecord, options: &ReportOptions, root: &Path) -> Option<Undone> {
        if run.is_done() {
            return None;
        }
        let cell = options.cell(root, run);
        let cell_error = cell.map(|cell| cell.error.clone()).filter(|error| !error.is_empty());
        let untrained =
            || (run.manifest.status == Status::Done).then(|| Summary::TRAINED_NOTHING.to_owned());
        let error =
            run.manifest.error.clone().or(cell_error).or_else(untrained).unwrap_or_default();
        let status = match cell {
            Some(cell) => cell.status.clone(),
            None => run.manifest.status.to_string(),
        };
        Some(Undone { name: run.path.display().to_string(), status, error })
    }

    /// Returns the cells of a study that never became a run.
    fn without_run<'a>(
        options: &'a ReportOptions,
        root: &'a Path,
    ) -> impl Iterator<Item = Undone> + 'a {
        let missing = options.cells.iter().filter(move |cell| {
            cell.status != "done" && RunRecord::read(&root.join(&cell.path)).is_err()
        });
        missing.map(|cell| Undone::of_cell(cell, root))
    }

    fn of_cell(cell: &CellRecord, root: &Path) -> Undone {
        Undone {
            name: root.join(&cell.path).display().to_string(),
            status: cell.status.clone(),
            error: cell.error.clone(),
        }
    }
}

/// Returns the metrics that at least one run has.
fn shown(wished: Vec<Metric>, arms: &[Arm]) -> Result<Vec<Metric>, ResultsError> {
    let mut metrics = wished;
    if metrics.is_empty() {
        for name in USUAL {
            metrics.push(Metric::parse(name)?);
        }
    }
    // Virtual time stays 0 with ideal links and devices.
    let says = |metric: &Metric| {
        let mut figures = arms.iter().flat_map(|arm| arm.figures(metric)).peekable();
        figures.peek().is_some() && (metric.name() != "virtual_s" || figures.any(|s| s > 0.0))
    };
    metrics.retain(says);
    Ok(metrics)
}

#[cfg(test)]
mod tests;
