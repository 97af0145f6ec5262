//! `[compare]`: metrics of tables, the baseline, and metrics that should be equal.

use super::axes::{Axis, Pick, read_picks};
use crate::results::Metric;
use crate::scenario::reader::{Keys, Param, TableReader};

/// Metrics and baseline of a study's comparison.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(given(axes: &[Axis], extras: &[String]))]
pub struct Compare {
    /// Baseline of the comparison.
    #[key(read = table.optional_table("baseline", |table| read_baseline(table, axes, extras)).flatten())]
    pub baseline: Option<Baseline>,
    /// Metrics that are columns of the tables.
    #[key(read = read_metrics(table, "metrics", &COLUMNS, doc))]
    pub metrics: Vec<Metric>,
    /// Metrics for which a note below the tables reports differences between arms.
    #[key(read = read_metrics(table, "warn_if_unequal", &["participants", "sample_passes"], doc))]
    pub warn_if_unequal: Vec<Metric>,
}

/// Default columns of the tables.
const COLUMNS: [&str; 5] = ["faa", "average_incremental", "forgetting", "bytes_up", "bytes_down"];

/// Baseline that other cells are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// For every cell, the one in which these arms replace its arms.
    Arms(Vec<Pick>),
    /// An extra cell, by its label.
    Extra(String),
}

fn read_baseline(
    table: &mut TableReader<'_>,
    axes: &[Axis],
    extras: &[String],
) -> Option<Baseline> {
    let label = Param::<String>::unset("label", "label of an extra cell");
    if let Some(label) = table.optional(&label) {
        if !extras.contains(&label) {
            let message = format!("there is no extra cell `{label}`");
            table.reject("label", &message, "unknown label", "write the `label` of an [[extra]]");
        }
        return Some(Baseline::Extra(label));
    }
    let picks = read_picks(table, axes);
    (!picks.is_empty()).then_some(Baseline::Arms(picks))
}

/// Reads a list of metric names.
pub(super) fn read_metrics(
    table: &mut TableReader<'_>,
    name: &'static str,
    default: &[&str],
    doc: &'static str,
) -> Vec<Metric> {
    let default = default.iter().map(|name| (*name).to_owned()).collect();
    let names: Vec<String> = table.get(&Param::new(name, default, doc));
    let mut metrics: Vec<Metric> = Vec::new();
    for (place, word) in names.iter().enumerate() {
        match Metric::parse(word) {
            Ok(metric) if metrics.contains(&metric) => {
                let message = format!("`{word}` occurs twice");
                table.reject_item(name, place, &message, "twice", "remove one of them");
            }
            Ok(metric) => metrics.push(metric),
            Err(error) => {
                let text = error.to_string();
                let (message, help) = text.split_once("; ").unwrap_or((&text, "see the guide"));
                table.reject_item(name, place, message, "no such metric", help);
            }
        }
    }
    metrics
}
