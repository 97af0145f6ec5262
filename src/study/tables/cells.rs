//! `cells.csv` of a study: one row per run.

use std::collections::BTreeSet;

use super::{point_cells, point_columns, portable};
use crate::report::column::CellType;
use crate::report::words::CONTROL;
use crate::results::{Metric, Table, TableCell, Unit};
use crate::study::collect::{Outcome, Outcomes};
use crate::study::{CellState, Study};

pub(super) fn table(study: &Study, outcomes: &Outcomes) -> Table {
    let mut metrics = study.metrics();
    let listed: BTreeSet<String> = metrics.iter().map(|it| it.name().to_owned()).collect();
    let others = by_kind(outcomes).into_iter();
    metrics.extend(others.filter(|metric| !listed.contains(metric.name())));
    let mut columns = point_columns(study);
    for seed in ["seed", "seed_run", "seed_partition", "seed_class_order"] {
        columns.push((seed.to_owned(), CellType::Int));
    }
    columns.extend(text(["status", "method_name"]));
    for metric in &metrics {
        // An axis may have the name of a metric: `rounds`.
        let taken = columns.iter().any(|(other, _)| other == metric.name());
        let prefix = if taken { "run_" } else { "" };
        columns.push((format!("{prefix}{metric}"), kind(metric)));
    }
    columns.extend(text(["digest_events", "digest_numbers", "hash", "path", "fedcast", "error"]));
    let mut table = Table::new(columns);
    for outcome in &outcomes.all {
        table.push(row(study, &metrics, outcome));
    }
    table
}

fn text<const N: usize>(names: [&str; N]) -> impl Iterator<Item = (String, CellType)> {
    names.map(|name| (name.to_owned(), CellType::Text)).into_iter()
}

/// Returns the type of a metric: bytes and counts are whole, except means and passes, which a schedule may split.
fn kind(metric: &Metric) -> CellType {
    match metric.unit() {
        Unit::Bytes if !metric.name().ends_with("_per_round") => CellType::Int,
        Unit::Count if metric.name() != "sample_passes" => CellType::Int,
        _ => CellType::Float,
    }
}

/// Returns one column per direction and kind of payload that any run sent.
fn by_kind(outcomes: &Outcomes) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for way in ["down", "up"] {
        let runs = outcomes.all.iter().filter_map(|outcome| outcome.run.as_ref());
        let kinds: BTreeSet<String> = runs.flat_map(|run| run.kinds(way)).collect();
        let kinds = std::iter::once(CONTROL).chain(kinds.iter().map(String::as_str));
        metrics.extend(kinds.filter_map(|kind| Metric::bytes_of_kind(way, kind)));
    }
    metrics
}

fn row(study: &Study, metrics: &[Metric], outcome: &Outcome) -> Vec<TableCell> {
    let Outcome { cell, hash, state, run, .. } = outcome;
    let seeds = &cell.replicate;
    let mut row = point_cells(study, &cell.point);
    for seed in [seeds.label, seeds.run, seeds.partition, seeds.class_order] {
        // Seeds come from TOML, whose integers end at `i64::MAX`.
        row.push(TableCell::Integer(i64::try_from(seed).unwrap_or(i64::MAX)));
    }
    row.push(state.word().into());
    row.push(run.as_ref().map_or(TableCell::Empty, |run| run.manifest.method.as_str().into()));
    for metric in metrics {
        row.push(outcome.figure(metric).into());
    }
    let digests = run.as_ref().and_then(|run| run.manifest.digests.as_ref());
    row.push(digests.map_or(TableCell::Empty, |both| both.events.to_string().as_str().into()));
    row.push(digests.map_or(TableCell::Empty, |both| both.numbers.to_string().as_str().into()));
    row.push(hash.as_str().into());
    row.push(TableCell::Text(portable(&cell.path)));
    row.push(run.as_ref().map_or(TableCell::Empty, |run| run.manifest.fedcast.as_str().into()));
    row.push(match state {
        CellState::Failed(failure) => failure.error.lines().next().unwrap_or_default().into(),
        CellState::Foreign(found) => TableCell::Text(format!("the directory holds {found}")),
        _ => TableCell::Empty,
    });
    row
}
