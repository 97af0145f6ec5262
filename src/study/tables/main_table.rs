//! Main table of a study: one row per point, mean and standard deviation over seeds, the best arm in bold.
//!
//! Arms are compared within rows that are otherwise equal: the best method for each number of clients, for example. A
//! note below the table reports unequal conditions (`compare.warn_if_unequal`).

use super::point_columns;
use crate::report::TextTable;
use crate::report::column::CellType;
use crate::results::{Metric, Spread, Table, TableCell, best};
use crate::study::collect::Outcomes;
use crate::study::{Baseline, Point, Study};

/// Main table of a study, with output in several formats.
#[derive(Clone, Debug)]
pub struct MainTable {
    /// First columns: the axes, then the label of extra cells if there are any.
    heads: Vec<String>,
    metrics: Vec<Metric>,
    rows: Vec<MainTableRow>,
    notes: Vec<String>,
    columns: Vec<(String, CellType)>,
}

#[derive(Clone, Debug)]
struct MainTableRow {
    names: Vec<String>,
    cells: Vec<TableCell>,
    /// Number of complete runs.
    n: usize,
    spreads: Vec<Option<Spread>>,
    best: Vec<bool>,
    note: Option<usize>,
}

impl MainTable {
    /// Returns the table of the complete runs.
    pub fn of(study: &Study, outcomes: &Outcomes) -> MainTable {
        let points = study.points();
        let metrics = study.compare.metrics.clone();
        let extras = !study.extras.is_empty() || study.axes.is_empty();
        let mut heads: Vec<String> = study.axes.iter().map(|axis| axis.name.clone()).collect();
        if extras {
            heads.push(if heads.is_empty() { "cell".into() } else { String::new() });
        }
        let mut rows: Vec<MainTableRow> = points
            .iter()
            .map(|point| MainTableRow {
                names: names(study, point, extras),
                cells: super::point_cells(study, point),
                n: outcomes.of(point).filter(|outcome| outcome.run.is_some()).count(),
                spreads: metrics.iter().map(|metric| spread(outcomes, point, metric)).collect(),
                best: vec![false; metrics.len()],
                note: None,
            })
            .collect();
        let mut notes = Vec::new();
        for group in groups(study, &points) {
            for (at, metric) in metrics.iter().enumerate() {
                let means = shared_means(outcomes, &points, &group, metric);
                mark_best(&mut rows, &group, (at, metric), &means);
            }
            if let Some(text) = unequal(study, outcomes, &points, &group) {
                let note = notes.iter().position(|other| *other == text).unwrap_or(notes.len());
                if note == notes.len() {
                    notes.push(text);
                }
                // A point without runs is not compared.
                let compared = group.iter().copied().filter(|row| rows[*row].n > 0);
                let compared: Vec<usize> = compared.collect();
                compared.into_iter().for_each(|row| rows[row].note = Some(note));
            }
        }
        MainTable { heads, metrics, rows, notes, columns: point_columns(study) }
    }

    /// Returns numbers in base units in columns `METRIC_mean`, `METRIC_sd` and `METRIC_n`.
    pub fn to_table(&self) -> Table {
        let mut columns = self.columns.clone();
        columns.push(("n".into(), CellType::Int));
        for metric in &self.metrics {
            columns.push((format!("{metric}_mean"), CellType::Float));
            columns.push((format!("{metric}_sd"), CellType::Float));
            columns.push((format!("{metric}_n"), CellType::Int));
        }
        columns.push(("note".into(), CellType::Text));
        let mut table = Table::new(columns);
        for row in &self.rows {
            let mut cells = row.cells.clone();
            cells.push(TableCell::Integer(row.n as i64));
            for spread in &row.spreads {
                cells.push(spread.map(|spread| spread.mean).into());
                cells.push(spread.and_then(|spread| spread.deviation).into());
                cells.push(TableCell::Integer(spread.map_or(0, |spread| spread.n) as i64));
            }
            cells.push(row.note.map_or(TableCell::Empty, |note| self.notes[note].as_str().into()));
            table.push(cells);
        }
        table
    }

    /// Formats the table for a terminal; the best values are marked with `*`.
    pub fn to_text(&self) -> String {
        // Names instead of titles, because a terminal is narrow.
        let short = self.metrics.iter().map(|metric| match metric.unit().symbol() {
            "" => metric.name().to_owned(),
            symbol => format!("{metric}, {symbol}"),
        });
        let head = self.heads.iter().cloned().chain(["n".to_owned()]).chain(short);
        let mut table = TextTable::new(head).left(self.heads.len());
        for row in &self.rows {
            let texts = (0..self.metrics.len()).map(|metric| {
                let mark = if row.best[metric] { "*" } else { "" };
                format!("{}{mark}", self.entry(row, metric, " ± "))
            });
            table.row(self.first(row, |name| name.to_owned()).into_iter().chain(texts));
        }
        let notes = self.notes.iter().enumerate();
        let notes = notes.map(|(index, note)| format!("[{}] {note}\n", index + 1));
        table.render() + &notes.collect::<String>()
    }

    /// Formats the table as Markdown.
    pub fn to_markdown(&self) -> String {
        let head = self.head();
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(head.clone());
        let rule = (0..head.len()).map(|at| if at < self.heads.len() { "---" } else { "---:" });
        text.push_str(&format!("|{}|\n", rule.collect::<Vec<_>>().join("|")));
        for row in &self.rows {
            let mut cells = self.first(row, |name| name.replace('|', "\\|"));
            cells.extend((0..self.metrics.len()).map(|metric| {
                let entry = self.entry(row, metric, " ± ");
                if row.best[metric] { format!("**{entry}**") } else { entry }
            }));
            text.push_str(&line(cells));
        }
        text.push_str(
            "\nMean ± standard deviation over n runs; (k) if only k have the metric. Bold: the best arm among rows \
             that are otherwise equal, over the seeds that all of them have. Notes compare the same seeds.\n",
        );
        for (index, note) in self.notes.iter().enumerate() {
            text.push_str(&format!("\n[{}] {note}\n", index + 1));
        }
        text
    }

    /// Formats the table as LaTeX, for `\input`.
    pub fn to_tex(&self) -> String {
        let (left, right) = ("l".repeat(self.heads.len()), "r".repeat(self.metrics.len() + 1));
        let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
        let head = self.head().iter().map(|text| escaped(text)).collect();
        let mut text = format!(
            "% \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{left}{right}}}\n\\toprule\n{}\\midrule\n",
            line(head)
        );
        for row in &self.rows {
            let mut cells = self.first(row, escaped);
            cells.extend((0..self.metrics.len()).map(|metric| {
                let entry = self.entry(row, metric, " \\pm ");
                match (entry.is_empty(), row.best[metric]) {
                    (true, _) => entry,
                    (_, true) => format!("$\\mathbf{{{entry}}}$"),
                    (_, false) => format!("${entry}$"),
                }
            }));
            text.push_str(&line(cells));
        }
        text.push_str("\\bottomrule\n\\end{tabular}\n");
        for (index, note) in self.notes.iter().enumerate() {
            text.push_str(&format!("% [{}] {note}\n", index + 1));
        }
        text
    }

    fn head(&self) -> Vec<String> {
        let metrics = self.metrics.iter().map(Metric::heading);
        self.heads.iter().cloned().chain(["n".to_owned()]).chain(metrics).collect()
    }

    /// Returns the first columns: names, the last with the mark of a note, and n.
    fn first(&self, row: &MainTableRow, shown: impl Fn(&str) -> String) -> Vec<String> {
        let mut cells: Vec<String> = row.names.iter().map(|name| shown(name)).collect();
        // Rows of the grid have an empty entry in the column of extra cells.
        let last = cells.iter_mut().rev().find(|name| !name.is_empty());
        if let (Some(note), Some(last)) = (row.note, last) {
            last.push_str(&format!(" [{}]", note + 1));
        }
        cells.push(row.n.to_string());
        cells
    }

    fn entry(&self, row: &MainTableRow, metric: usize, sign: &str) -> String {
        let Some(spread) = row.spreads[metric] else { return String::new() };
        let metric = &self.metrics[metric];
        let mut text = metric.show(spread.mean);
        if let Some(deviation) = spread.deviation {
            text.push_str(sign);
            text.push_str(&metric.show(deviation));
        }
        if spread.n != row.n {
            text.push_str(&format!(" ({})", spread.n));
        }
        text
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
/// These are the baseline's axes, else those of arms with names. Extra cells are not compared.
fn groups(study: &Study, points: &[Point]) -> Vec<Vec<usize>> {
    let compared: Vec<usize> = match &study.compare.baseline {
        Some(Baseline::Arms(picks)) => picks.iter().map(|pick| pick.axis).collect(),
        _ => (0..study.axes.len()).filter(|axis| study.axes[*axis].key.is_none()).collect(),
    };
    let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for (row, point) in points.iter().enumerate() {
        let Point::Grid(arms) = point else { continue };
        let kept = arms.iter().enumerate().filter(|(axis, _)| !compared.contains(axis));
        let key: Vec<usize> = match compared.is_empty() {
            // No arm has a name: all rows are compared.
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

/// Returns the mean of every row of a group that has the metric, over the seeds that all of these have.
///
/// Means over different seeds cannot be compared.
fn shared_means(
    outcomes: &Outcomes,
    points: &[Point],
    group: &[usize],
    metric: &Metric,
) -> Vec<(usize, f64)> {
    let figures = group.iter().map(|row| (*row, outcomes.figures(&points[*row], metric)));
    let figures: Vec<_> = figures.filter(|(_, figures)| !figures.is_empty()).collect();
    let has = |figures: &[(u64, f64)], seed: u64| figures.iter().any(|(other, _)| *other == seed);
    let shared = |seed: u64| figures.iter().all(|(_, figures)| has(figures, seed));
    let mean = |(row, figures): &(usize, Vec<(u64, f64)>)| {
        let kept = figures.iter().filter(|(seed, _)| shared(*seed)).map(|(_, figure)| *figure);
        Some((*row, Spread::of(&kept.collect::<Vec<_>>())?.mean))
    };
    figures.iter().filter_map(mean).collect()
}

/// Marks the best rows of a group, by metric.
fn mark_best(
    rows: &mut [MainTableRow],
    group: &[usize],
    (at, metric): (usize, &Metric),
    means: &[(usize, f64)],
) {
    let mean = |row: &usize| means.iter().find(|(other, _)| other == row).map(|(_, mean)| *mean);
    let figures: Vec<_> = group.iter().map(|row| (mean(row), rows[*row].n > 0)).collect();
    for (row, is_best) in group.iter().zip(best(metric, &figures)) {
        rows[*row].best[at] = is_best;
    }
}

/// Returns a note on metrics that should be equal in a group and are not, if there are any.
fn unequal(
    study: &Study,
    outcomes: &Outcomes,
    points: &[Point],
    group: &[usize],
) -> Option<String> {
    let mut parts = Vec::new();
    for metric in &study.compare.warn_if_unequal {
        let means = shared_means(outcomes, points, group, metric);
        let Some((_, first)) = means.first() else { continue };
        if means.iter().all(|(_, mean)| mean == first) {
            continue;
        }
        let each = means.iter().map(|(row, mean)| {
            format!("{} {}", varying(study, points, group, *row), metric.show(*mean))
        });
        let each: Vec<String> = each.collect();
        parts.push(format!("{} differ: {}", metric.name(), each.join(", ")));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the labels of a row's arms that differ within the group.
fn varying(study: &Study, points: &[Point], group: &[usize], row: usize) -> String {
    let arms = |row: usize| match &points[row] {
        Point::Grid(arms) => arms.as_slice(),
        Point::Extra(_) => &[],
    };
    let differs = |axis: &usize| group.iter().any(|other| arms(*other)[*axis] != arms(row)[*axis]);
    let labels = (0..study.axes.len()).filter(differs);
    let label = |axis: usize| study.axes[axis].arms[arms(row)[axis]].label.clone();
    labels.map(label).collect::<Vec<_>>().join(" ")
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            c => escaped.push(c),
        }
    }
    escaped
}
