//! Main table of a study: one row per point, mean and standard deviation over seeds, the best arm in bold.
//!
//! Arms are compared within rows that are otherwise equal: the best method for each number of clients, for example. A
//! note below the table reports unequal conditions (`compare.warn_if_unequal`).

mod formats;
mod latex;
mod latex_text;
mod layout;

use layout::LatexLayout;

use super::grid::{GridEntry, GridFacts, PublishedGrids};
use super::point_columns;
use super::published::{self, PublishedValue};
use crate::report::column::CellType;
use crate::results::{Metric, Spread, TableCell, best};
use crate::study::collect::Outcomes;
use crate::study::{Point, Study};

/// Main table of a study, with output in several formats.
#[derive(Clone, Debug)]
pub struct MainTable {
    /// First columns: the axes, then the label of extra cells if there are any.
    heads: Vec<String>,
    metrics: Vec<Metric>,
    rows: Vec<MainTableRow>,
    notes: Vec<String>,
    columns: Vec<(String, CellType)>,
    /// One flag per metric: true if it has a column of published numbers.
    has_published: Vec<bool>,
    /// True if any cell has published numbers.
    publishes: bool,
    grids: PublishedGrids,
    latex: LatexLayout,
}

#[derive(Clone, Debug)]
struct MainTableRow {
    point: Point,
    names: Vec<String>,
    cells: Vec<TableCell>,
    /// Number of complete runs.
    n: usize,
    spreads: Vec<Option<Spread>>,
    best: Vec<bool>,
    published: Vec<Option<PublishedValue>>,
    /// Changes that published numbers do not include.
    changes: Vec<String>,
    source: Option<String>,
    note: Option<usize>,
}

impl MainTable {
    /// Returns the table of the complete runs.
    pub fn of(study: &Study, outcomes: &Outcomes) -> MainTable {
        let points = study.points();
        let metrics = published::metrics(study, outcomes);
        let extras = !study.extras.is_empty() || study.axes.is_empty();
        let mut heads: Vec<String> = study.axes.iter().map(|axis| axis.name.clone()).collect();
        if extras {
            heads.push(if heads.is_empty() { "cell".into() } else { String::new() });
        }
        let mut rows: Vec<MainTableRow> = points
            .iter()
            .map(|point| MainTableRow {
                point: point.clone(),
                names: names(study, point, extras),
                cells: super::point_cells(study, point),
                n: outcomes.of(point).filter(|outcome| outcome.run.is_some()).count(),
                spreads: metrics.iter().map(|metric| spread(outcomes, point, metric)).collect(),
                best: vec![false; metrics.len()],
                published: metrics.iter().map(|m| published::value(outcomes, point, m)).collect(),
                changes: published::changes(outcomes, point),
                source: published::source(outcomes, point).map(str::to_owned),
                note: None,
            })
            .collect();
        let mut notes = Vec::new();
        let mut latex = LatexLayout::of(study, &points, &study.compared_axes());
        for group in groups(study, &points) {
            for (at, metric) in metrics.iter().enumerate() {
                let spreads = shared_spreads(outcomes, &points, &group, metric);
                mark_best(&mut rows, &group, (at, metric), &spreads);
            }
            let unequal = unequal(study, outcomes, &points, &group);
            if !unequal.is_empty() {
                let text = named(
                    &unequal,
                    |metric| metric.name().to_owned(),
                    |row| varying(study, &points, &group, row, |label| label),
                );
                let note = notes.iter().position(|other| *other == text).unwrap_or(notes.len());
                if note == notes.len() {
                    notes.push(text);
                    let title = |metric: &Metric| metric.title().to_owned();
                    latex.notes.push(named(&unequal, title, |row| {
                        varying(study, &points, &group, row, |label| study.report.shown(label))
                    }));
                }
                // A point without runs is not compared.
                let compared = group.iter().copied().filter(|row| rows[*row].n > 0);
                let compared: Vec<usize> = compared.collect();
                compared.into_iter().for_each(|row| rows[row].note = Some(note));
            }
        }
        let has = |metric: usize| rows.iter().any(|row| row.published[metric].is_some());
        let has_published: Vec<bool> = (0..metrics.len()).map(has).collect();
        let publishes = outcomes.all.iter().any(|outcome| !outcome.expected.is_empty());
        let columns = point_columns(study);
        let grids =
            PublishedGrids::of(study, &metrics, &TableFacts { metrics: &metrics, rows: &rows });
        MainTable { heads, metrics, rows, notes, columns, has_published, publishes, grids, latex }
    }
}

/// Facts of the rows for the grids.
struct TableFacts<'a> {
    metrics: &'a [Metric],
    rows: &'a [MainTableRow],
}

impl TableFacts<'_> {
    fn row(&self, point: &Point) -> Option<&MainTableRow> {
        self.rows.iter().find(|row| row.point == *point)
    }
}

impl GridFacts for TableFacts<'_> {
    fn entry(&self, point: &Point, metric: &Metric) -> GridEntry {
        let at = self.metrics.iter().position(|other| other == metric);
        let Some((row, at)) = self.row(point).zip(at) else { return GridEntry::default() };
        GridEntry { published: row.published[at], measured: row.spreads[at] }
    }

    fn changes(&self, point: &Point) -> Vec<String> {
        self.row(point).map(|row| row.changes.clone()).unwrap_or_default()
    }

    fn source(&self, point: &Point) -> Option<String> {
        self.row(point)?.source.clone()
    }
}

fn names(study: &Study, point: &Point, extras: bool) -> Vec<String> {
    let axes = 0..study.axes.len();
    let mut names: Vec<String> = axes
        .map(|axis| study.arm(point, axis).map(|arm| arm.label.clone()).unwrap_or_default())
        .collect();
    if extras {
        let is_extra = matches!(point, Point::Extra(_)) || study.axes.is_empty();
        names.push(if is_extra { study.label(point) } else { String::new() });
    }
    names
}

fn spread(outcomes: &Outcomes, point: &Point, metric: &Metric) -> Option<Spread> {
    let figures = outcomes.figures(point, metric);
    Spread::of(&figures.iter().map(|(_, figure)| *figure).collect::<Vec<_>>())
}

/// Returns groups of rows that differ only in the compared axes.
///
/// Extra cells are not compared.
fn groups(study: &Study, points: &[Point]) -> Vec<Vec<usize>> {
    let compared = study.compared_axes();
    let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (row, point) in points.iter().enumerate() {
        let Point::Grid(arms) = point else { continue };
        let kept = arms.iter().enumerate().filter(|(axis, _)| !compared.contains(axis));
        let key: Vec<usize> = match compared.is_empty() {
            true => Vec::new(),
            false => kept.map(|(_, arm)| *arm).collect(),
        };
        match groups.iter_mut().find(|group| group.0 == key) {
            Some(group) => group.1.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups.into_iter().map(|(_, rows)| rows).filter(|rows| rows.len() > 1).collect()
}

/// Returns the spread of the rows of a group that have the metric, over the seeds that all have.
fn shared_spreads(
    outcomes: &Outcomes,
    points: &[Point],
    group: &[usize],
    metric: &Metric,
) -> Vec<(usize, Spread)> {
    let figures: Vec<_> = group.iter().map(|row| outcomes.figures(&points[*row], metric)).collect();
    let spreads = Spread::over_shared_seeds(&figures);
    group.iter().zip(spreads).filter_map(|(row, spread)| Some((*row, spread?))).collect()
}

/// Marks the best rows of a group, by metric.
fn mark_best(
    rows: &mut [MainTableRow],
    group: &[usize],
    (at, metric): (usize, &Metric),
    spreads: &[(usize, Spread)],
) {
    let of = |row: &usize| spreads.iter().find(|(other, _)| other == row).map(|(_, of)| *of);
    let figures: Vec<_> = group.iter().map(|row| (of(row), rows[*row].n > 0)).collect();
    for (row, is_best) in group.iter().zip(best(metric, &figures)) {
        rows[*row].best[at] = is_best;
    }
}

/// Metric that should be equal in a group and is not, with the mean of every row.
type Unequal<'a> = (&'a Metric, Vec<(usize, f64)>);

/// Returns the metrics that should be equal in a group and are not.
fn unequal<'a>(
    study: &'a Study,
    outcomes: &Outcomes,
    points: &[Point],
    group: &[usize],
) -> Vec<Unequal<'a>> {
    let mut unequal = Vec::new();
    for metric in &study.compare.warn_if_unequal {
        let spreads = shared_spreads(outcomes, points, group, metric);
        let means: Vec<(usize, f64)> =
            spreads.into_iter().map(|(row, spread)| (row, spread.mean)).collect();
        if means.windows(2).any(|pair| pair[0].1 != pair[1].1) {
            unequal.push((metric, means));
        }
    }
    unequal
}

/// Returns a note on unequal metrics, with names of metrics and rows.
fn named(
    unequal: &[Unequal],
    metric_name: impl Fn(&Metric) -> String,
    row_name: impl Fn(usize) -> String,
) -> String {
    let part = |(metric, means): &Unequal| {
        let each = means
            .iter()
            .map(|(row, mean)| format!("{} {}", row_name(*row), metric.show_grouped(*mean)));
        format!("{} differ: {}", metric_name(metric), each.collect::<Vec<_>>().join(", "))
    };
    unequal.iter().map(part).collect::<Vec<_>>().join("; ")
}

/// Returns the labels of a row's arms that differ within the group.
fn varying<'s>(
    study: &'s Study,
    points: &[Point],
    group: &[usize],
    row: usize,
    shown: impl Fn(&'s str) -> &'s str,
) -> String {
    let arms = |row: usize| match &points[row] {
        Point::Grid(arms) => arms.as_slice(),
        Point::Extra(_) => &[],
    };
    let differs = |axis: &usize| group.iter().any(|other| arms(*other)[*axis] != arms(row)[*axis]);
    let labels = (0..study.axes.len()).filter(differs);
    let label = |axis: usize| shown(&study.axes[axis].arms[arms(row)[axis]].label);
    labels.map(label).collect::<Vec<_>>().join(" ")
}
