//! Grids of published and measured numbers, as a table of a paper has them: methods by settings.
//!
//! A grid is written into `table.md` from the outcomes of a study, and onto its report page from `table.csv`, which has
//! all that it needs without the scenario files.

use std::path::Path;

use super::published::PublishedValue;
use crate::results::{Metric, ResultsError, Sheet, Spread};
use crate::study::{AxisArm, Point, Study};

/// Suffixes of the columns of `table.csv` with a metric's published number and its standard deviation.
pub(super) const PUBLISHED: [&str; 2] = ["_published", "_published_sd"];
/// Column of `table.csv` with the changes that published numbers do not include.
pub(super) const CHANGES: &str = "published_changes";
/// Column of `table.csv` with the source of published numbers.
pub(super) const SOURCE: &str = "published_source";
/// Separator of changes in that column.
pub(super) const BETWEEN: &str = "; ";

/// Entry of a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GridEntry {
    /// Published number.
    pub published: Option<PublishedValue>,
    /// Mean of the complete runs.
    pub measured: Option<Spread>,
}

impl GridEntry {
    /// Formats the entry as `published / measured`, with a dash for a missing number or for both.
    fn show(&self, metric: &Metric) -> String {
        let published = self.published.map(|value| value.show(metric, " ± "));
        let measured = self.measured.map(|Spread { mean, deviation, .. }| {
            PublishedValue { value: mean, deviation }.show(metric, " ± ")
        });
        let dash = || "-".to_owned();
        if published.is_none() && measured.is_none() {
            return dash();
        }
        format!("{} / {}", published.unwrap_or_else(dash), measured.unwrap_or_else(dash))
    }
}

/// Published and measured numbers of one metric by the arms of two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedGrid {
    /// Metric and, of several grids of one metric, the arms on other axes.
    pub title: String,
    /// Name of the rows, then those of the columns.
    pub head: Vec<String>,
    /// Name and entries of each row; an entry of no cell is empty.
    pub rows: Vec<Vec<String>>,
}

/// All grids of a study, and differences of its runs from those of the published numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PublishedGrids {
    /// One grid per metric and combination of arms on other axes.
    pub grids: Vec<PublishedGrid>,
    /// Sentences about the sources and about settings that differ.
    pub notes: Vec<String>,
}

/// Source of the facts of a point: published and measured number by metric, changes, and source of the numbers.
pub(super) trait GridFacts {
    fn entry(&self, point: &Point, metric: &Metric) -> GridEntry;
    fn changes(&self, point: &Point) -> Vec<String>;
    fn source(&self, point: &Point) -> Option<String>;
}

impl PublishedGrids {
    /// Returns the grids of a study with `report.grid`, for the metrics with a published number.
    pub(super) fn of(study: &Study, metrics: &[Metric], facts: &impl GridFacts) -> PublishedGrids {
        let Some(axes) = &study.report.grid else { return PublishedGrids::default() };
        let place = |name: &str| study.axes.iter().position(|axis| axis.name == name);
        let (Some(rows), Some(columns)) = (place(&axes.rows), place(&axes.columns)) else {
            return PublishedGrids::default();
        };
        let points: Vec<Point> = study.points();
        let published: Vec<&Point> = points
            .iter()
            .filter(|point| metrics.iter().any(|m| facts.entry(point, m).published.is_some()))
            .collect();
        let mut grids = Vec::new();
        for (name, part) in parts(study, &points, [rows, columns]) {
            for metric in metrics {
                let entry = |point: &Point| facts.entry(point, metric);
                if part.iter().any(|point| entry(point).published.is_some()) {
                    let title = match name.is_empty() {
                        true => metric.heading(),
                        false => format!("{}, {name}", metric.heading()),
                    };
                    let show = |point: &Point| entry(point).show(metric);
                    grids.push(grid(study, &part, [rows, columns], title, show));
                }
            }
        }
        let mut sources: Vec<String> = Vec::new();
        for source in published.iter().filter_map(|point| facts.source(point)) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        let source = (!sources.is_empty()).then(|| format!("Published: {}.", sources.join("; ")));
        let notes = source.into_iter().chain(differences(study, &published, facts)).collect();
        PublishedGrids { grids, notes }
    }

    /// Reads the grids of a study from its `table.csv`; there are none before it is written.
    ///
    /// # Errors
    /// Fails if the file is damaged.
    pub fn read(study: &Study, table: &Path) -> Result<PublishedGrids, ResultsError> {
        let Some(sheet) = Sheet::read(table)? else { return Ok(PublishedGrids::default()) };
        let names = sheet.columns.iter().filter_map(|name| name.strip_suffix(PUBLISHED[0]));
        let metrics: Vec<Metric> = names.filter_map(|name| Metric::parse(name).ok()).collect();
        Ok(PublishedGrids::of(study, &metrics, &SheetFacts { study, sheet: &sheet }))
    }

    /// Formats the grids for `table.md`.
    pub(super) fn to_markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = String::new();
        for PublishedGrid { title, head, rows } in &self.grids {
            let rule = "---:|".repeat(head.len() - 1);
            text.push_str(&format!(
                "\n{title}, published / measured:\n\n{}|---|{rule}\n",
                line(head)
            ));
            rows.iter().for_each(|row| text.push_str(&line(row)));
        }
        for note in &self.notes {
            text.push_str(&format!("\n{note}\n"));
        }
        text
    }
}

/// Returns the points of the grid in groups with equal arms on axes other than `shown`.
///
/// The name of a group has these arms.
fn parts<'p>(
    study: &Study,
    points: &'p [Point],
    shown: [usize; 2],
) -> Vec<(String, Vec<&'p Point>)> {
    let mut parts: Vec<(String, Vec<&Point>)> = Vec::new();
    for point in points {
        let Point::Grid(arms) = point else { continue };
        let others = (0..arms.len()).filter(|axis| !shown.contains(axis));
        let names = others.map(|axis| {
            let of = &study.axes[axis];
            format!("{}={}", of.name, of.arms[arms[axis]].label)
        });
        let name = names.collect::<Vec<_>>().join(", ");
        match parts.iter_mut().find(|(other, _)| *other == name) {
            Some((_, part)) => part.push(point),
            None => parts.push((name, vec![point])),
        }
    }
    parts
}

fn grid(
    study: &Study,
    part: &[&Point],
    [rows, columns]: [usize; 2],
    title: String,
    show: impl Fn(&Point) -> String,
) -> PublishedGrid {
    let at = |row: usize, column: usize| {
        let is_there = |point: &&&Point| matches!(point, Point::Grid(arms) if arms[rows] == row && arms[columns] == column);
        part.iter().find(is_there).map_or_else(String::new, |point| show(point))
    };
    let arms = |axis: usize| study.axes[axis].arms.iter().map(|arm| arm.label.clone());
    let row = |(place, name): (usize, String)| {
        let entries = (0..study.axes[columns].arms.len()).map(|column| at(place, column));
        std::iter::once(name).chain(entries).collect()
    };
    PublishedGrid {
        title,
        head: std::iter::once(study.axes[rows].name.clone()).chain(arms(columns)).collect(),
        rows: arms(rows).enumerate().map(row).collect(),
    }
}

/// Returns the sentences on cells that differ in settings from their published numbers.
///
/// Cells with the same changes share one.
fn differences(study: &Study, published: &[&Point], facts: &impl GridFacts) -> Vec<String> {
    let changes: Vec<Vec<String>> = published.iter().map(|point| facts.changes(point)).collect();
    let mut known: Vec<(Vec<usize>, Vec<&str>)> = Vec::new();
    let mut met: Vec<&str> = Vec::new();
    for change in changes.iter().flatten().map(String::as_str) {
        if met.contains(&change) {
            continue;
        }
        met.push(change);
        let has = |cell: &usize| changes[*cell].iter().any(|other| other == change);
        let cells: Vec<usize> = (0..published.len()).filter(has).collect();
        match known.iter_mut().find(|(other, _)| *other == cells) {
            Some((_, texts)) => texts.push(change),
            None => known.push((cells, vec![change])),
        }
    }
    let sentence = |(cells, texts): &(Vec<usize>, Vec<&str>)| {
        let texts: Vec<String> = texts.iter().map(|text| format!("--set {text}")).collect();
        format!(
            "{} from the files of the published numbers as they stand: {}",
            named(study, published, cells),
            texts.join(" ")
        )
    };
    known.iter().map(sentence).collect()
}

/// Largest number of cells that are listed by their labels.
const LISTED: usize = 4;

/// Returns the subject of a sentence about some of the points with published numbers.
fn named(study: &Study, published: &[&Point], cells: &[usize]) -> String {
    if cells.len() == published.len() {
        return "All cells differ".to_owned();
    }
    for (axis, of) in study.axes.iter().enumerate() {
        for (arm, AxisArm { label, .. }) in of.arms.iter().enumerate() {
            let has =
                |cell: &usize| matches!(published[*cell], Point::Grid(arms) if arms[axis] == arm);
            if (0..published.len()).filter(has).eq(cells.iter().copied()) {
                return format!("Cells with {}={label} differ", of.name);
            }
        }
    }
    let labels: Vec<String> = cells
        .iter()
        .take(LISTED)
        .map(|cell| format!("[{}]", study.label(published[*cell])))
        .collect();
    match cells.len() {
        1 => format!("{} differs", labels[0]),
        2..=LISTED => format!("{} differ", labels.join(", ")),
        n => format!("{} and {} more cells differ", labels.join(", "), n - LISTED),
    }
}

/// Facts of the points in a `table.csv`.
struct SheetFacts<'a> {
    study: &'a Study,
    sheet: &'a Sheet,
}

impl SheetFacts<'_> {
    /// Returns the text in a column of the row of a point; `None` if it is empty.
    fn text(&self, point: &Point, column: &str) -> Option<&str> {
        let (label, column) = (self.sheet.column("label")?, self.sheet.column(column)?);
        let name = self.study.label(point);
        let row = self.sheet.rows.iter().find(|row| row[label] == name)?;
        Some(row[column].as_str()).filter(|text| !text.is_empty())
    }
}

impl GridFacts for SheetFacts<'_> {
    fn entry(&self, point: &Point, metric: &Metric) -> GridEntry {
        let number = |suffix: &str| -> Option<f64> {
            self.text(point, &format!("{metric}{suffix}"))?.parse().ok()
        };
        let value = |value| PublishedValue { value, deviation: number(PUBLISHED[1]) };
        let n = number("_n").unwrap_or(0.0) as usize;
        let spread = |mean| Spread { n, mean, deviation: number("_sd") };
        GridEntry {
            published: number(PUBLISHED[0]).map(value),
            measured: number("_mean").map(spread),
        }
    }

    fn changes(&self, point: &Point) -> Vec<String> {
        let text = self.text(point, CHANGES);
        text.into_iter().flat_map(|text| text.split(BETWEEN)).map(str::to_owned).collect()
    }

    fn source(&self, point: &Point) -> Option<String> {
        self.text(point, SOURCE).map(str::to_owned)
    }
}
