//! `[report]`: content of a study's report.

use std::fmt;

use super::axes::Axis;
use crate::methods::display_name;
use crate::results::{Metric, ResultsError};
use crate::scenario::reader::{Param, TableReader, nearest};

/// Axes and plots of a study's report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportSection {
    /// Horizontal axis: by default the first axis with a key, else the first.
    pub x: Option<String>,
    /// Axis with one line for each arm: by default the first other axis.
    pub series: Option<String>,
    /// Plots to draw; empty means a default selection.
    pub plots: Vec<Plot>,
    /// Axes of the grid of published and measured numbers, if the report has one.
    pub grid: Option<GridAxes>,
    /// Names in print of arms, by label: in `table.tex`, figures and legends.
    pub names: Vec<(String, String)>,
}

/// Axes of a grid of published and measured numbers, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridAxes {
    /// Axis whose arms are rows.
    pub rows: String,
    /// Axis whose arms are columns.
    pub columns: String,
}

/// One plot of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Plot {
    /// A metric over `x`, with one line for each arm of `series`.
    Metric(Metric),
    /// Accuracy on all classes seen after each task.
    AccuracyByTask,
    /// Accuracy by round.
    AccuracyByRound,
    /// Bytes by kind, stacked.
    BytesByKind,
    /// One metric against another.
    Pareto(Metric, Metric),
}

/// Names of plots that are no metric.
const WORDS: [&str; 4] =
    ["accuracy_by_task", "accuracy_by_round", "bytes_by_kind", "pareto:bytes_up:faa"];

impl Plot {
    /// Parses the name of a plot: a metric such as `faa`, or a word such as `accuracy_by_task`.
    ///
    /// The plot of one metric against another is `pareto:bytes_up:faa`.
    ///
    /// # Errors
    /// Fails if there is no such plot or metric.
    pub fn parse(text: &str) -> Result<Plot, ResultsError> {
        match text {
            "accuracy_by_task" => return Ok(Plot::AccuracyByTask),
            "accuracy_by_round" => return Ok(Plot::AccuracyByRound),
            "bytes_by_kind" => return Ok(Plot::BytesByKind),
            _ => {}
        }
        if let Some(both) = text.strip_prefix("pareto:") {
            let words: Vec<&str> = both.split(':').collect();
            // A metric may itself contain a colon: `pareto:rounds_to:0.8:faa`.
            let split = (1..words.len()).find_map(|at| {
                let one = Metric::parse(&words[..at].join(":")).ok()?;
                Some((one, Metric::parse(&words[at..].join(":")).ok()?))
            });
            let unknown = || ResultsError::UnknownMetric {
                name: both.to_owned(),
                help: "write two metrics, such as `pareto:bytes_up:faa`".to_owned(),
            };
            return split.map(|(x, y)| Plot::Pareto(x, y)).ok_or_else(unknown);
        }
        Metric::parse(text).map(Plot::Metric).map_err(|error| match nearest(text, WORDS) {
            Some(word) => ResultsError::UnknownMetric {
                name: text.to_owned(),
                help: format!("did you mean `{word}`?"),
            },
            None => error,
        })
    }
}

impl fmt::Display for Plot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plot::Metric(metric) => write!(f, "{metric}"),
            Plot::AccuracyByTask => f.write_str("accuracy_by_task"),
            Plot::AccuracyByRound => f.write_str("accuracy_by_round"),
            Plot::BytesByKind => f.write_str("bytes_by_kind"),
            Plot::Pareto(x, y) => write!(f, "pareto:{x}:{y}"),
        }
    }
}

impl ReportSection {
    pub(super) fn read(table: &mut TableReader<'_>, axes: &[Axis]) -> ReportSection {
        let mut axis = |key: &'static str, doc| {
            let name = table.optional(&Param::<String>::unset(key, doc))?;
            refuse_unknown_axis(table, key, &name, axes);
            Some(name)
        };
        let x = axis("x", "horizontal axis");
        let series = axis("series", "axis with one line for each arm");
        let first = || axes.iter().find(|axis| axis.key.is_some()).or(axes.first());
        let x = x.or_else(|| Some(first()?.name.clone()));
        let other = || axes.iter().find(|axis| Some(&axis.name) != x.as_ref());
        let series = series.or_else(|| Some(other()?.name.clone()));
        let doc = "plots: metrics, accuracy_by_task, accuracy_by_round, bytes_by_kind, pareto:METRIC:METRIC";
        let names: Vec<String> = table.get(&Param::new("plots", Vec::new(), doc));
        let mut plots = Vec::new();
        for (place, word) in names.iter().enumerate() {
            match Plot::parse(word) {
                Ok(plot) => plots.push(plot),
                Err(error) => {
                    let text = error.to_string();
                    let (message, help) = text.split_once("; ").unwrap_or((&text, "see the guide"));
                    table.reject_item("plots", place, message, "no such plot", help);
                }
            }
        }
        let grid = table.optional_table("grid", |table| GridAxes::read(table, axes));
        let names =
            table.optional_table("names", |table| read_names(table, axes)).unwrap_or_default();
        ReportSection { x, series, plots, grid, names }
    }

    /// Returns the name of an arm in print: the given one, else that of the method with this name, else the label.
    pub fn shown<'a>(&'a self, label: &'a str) -> &'a str {
        shown_arm(&self.names, label)
    }
}

/// Returns the name of an arm in print, given the names of a study.
pub(crate) fn shown_arm<'a>(names: &'a [(String, String)], label: &'a str) -> &'a str {
    let given = names.iter().find(|(known, _)| known == label);
    given.map_or_else(|| display_name(label), |(_, name)| name.as_str())
}

fn read_names(table: &mut TableReader<'_>, axes: &[Axis]) -> Vec<(String, String)> {
    let names = table.rest::<String>();
    let labels: Vec<&str> =
        axes.iter().flat_map(|axis| &axis.arms).map(|arm| arm.label.as_str()).collect();
    for (label, _) in names.iter().filter(|(label, _)| !labels.contains(&label.as_str())) {
        let help = match nearest(label, labels.iter().copied()) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("arms are {}", labels.join(", ")),
        };
        table.reject(label, &format!("there is no arm `{label}`"), "no such arm", &help);
    }
    names
}

impl GridAxes {
    fn read(table: &mut TableReader<'_>, axes: &[Axis]) -> GridAxes {
        let mut axis = |key: &'static str, example: &str, doc| {
            let name = table.require(&Param::required(key, example.to_owned(), doc));
            let name = name.unwrap_or_default();
            if !name.is_empty() {
                refuse_unknown_axis(table, key, &name, axes);
            }
            name
        };
        let rows = axis("rows", "method", "axis whose arms are the rows of the grid");
        let columns = axis("columns", "setting", "axis whose arms are the columns of the grid");
        if !rows.is_empty() && rows == columns {
            let help = "name two axes; other axes have one grid per arm";
            table.reject("columns", "rows and columns are the same axis", "the same", help);
        }
        GridAxes { rows, columns }
    }
}

fn refuse_unknown_axis(table: &mut TableReader<'_>, key: &str, name: &str, axes: &[Axis]) {
    let known = axes.iter().map(|axis| axis.name.as_str());
    if known.clone().any(|axis| axis == name) {
        return;
    }
    let help = match nearest(name, known.clone()) {
        Some(word) => format!("did you mean \"{word}\"?"),
        None => format!("use one of {}", known.collect::<Vec<_>>().join(", ")),
    };
    table.reject(key, &format!("there is no axis `{name}`"), "no such axis", &help);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_read_back_as_they_are_written() {
        for word in [
            "faa",
            "accuracy_by_task",
            "accuracy_by_round",
            "bytes_by_kind",
            "pareto:bytes_up:faa",
            "pareto:rounds_to:0.8:faa",
        ] {
            assert_eq!(Plot::parse(word).unwrap().to_string(), word);
        }
        for (typo, hint) in [
            ("acuracy_by_round", "`accuracy_by_round`"),
            ("pareto:faa", "two metrics"),
            ("fa", "`faa`"),
        ] {
            let error = Plot::parse(typo).unwrap_err().to_string();
            assert!(error.contains(hint), "{typo}: {error}");
        }
    }
}
