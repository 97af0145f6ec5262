//! Results of a study: its document, and the errors of its runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::Session;
use crate::document::Document;
use crate::results::Metric;
use crate::study::{CellState, Outcome};

/// Results of a study as JSON.
#[derive(Serialize, Document)]
pub(in crate::cli) struct StudyResults<'a> {
    /// Name of the study.
    pub(super) study: &'a str,
    /// Directory of the study.
    pub(super) directory: String,
    /// Number of runs by status.
    #[document(keys("status"))]
    pub(super) runs: BTreeMap<&'a str, usize>,
    /// Runs, in the order of the study file.
    pub(super) cells: Vec<CellResults<'a>>,
}

/// Results of one run of a study.
#[derive(Serialize, Document)]
pub(super) struct CellResults<'a> {
    /// Label of the cell, such as `clients=10, method=hgp`.
    label: String,
    /// Seed of the run, or the number of the repetition.
    seed: u64,
    /// `done`, `failed`, `unfinished`, `running`, `waiting` or `other scenario`.
    status: &'a str,
    /// Run directory.
    path: PathBuf,
    /// Metrics of `[compare]`; null before the run has them.
    #[document(keys("metric"))]
    metrics: BTreeMap<String, Option<f64>>,
    /// Reason for a failure.
    error: Option<&'a str>,
}

impl Session<'_> {
    /// Returns the errors of failed runs, each once, behind the first run that it ended.
    pub(super) fn failures(&self) -> String {
        let mut errors: Vec<(&str, String, usize)> = Vec::new();
        for (outcome, _) in self.outcomes.all.iter().zip(&self.wanted).filter(|both| *both.1) {
            let CellState::Failed(failure) = &outcome.state else { continue };
            match errors.iter_mut().find(|(error, ..)| *error == failure.error) {
                Some((.., others)) => *others += 1,
                None => {
                    let name = self.study.label(&outcome.cell.point);
                    let first = format!("{name}, seed {}", outcome.cell.replicate.label);
                    errors.push((&failure.error, first, 0));
                }
            }
        }
        let line = |(error, first, others): (&str, String, usize)| match others {
            0 => format!("failed: {first}: {error}\n"),
            others => format!("failed: {first}, and {others} more: {error}\n"),
        };
        errors.into_iter().map(line).collect()
    }

    /// Returns the results of one run.
    pub(super) fn cell<'a>(&'a self, outcome: &'a Outcome) -> CellResults<'a> {
        let error = match &outcome.state {
            CellState::Failed(failure) => Some(failure.error.as_str()),
            _ => None,
        };
        let metrics = &self.study.compare.metrics;
        let value = |metric: &Metric| (metric.name().to_owned(), outcome.figure(metric));
        CellResults {
            label: self.study.label(&outcome.cell.point),
            seed: outcome.cell.replicate.label,
            status: outcome.state.word(),
            path: self.directory.run(&outcome.cell),
            metrics: metrics.iter().map(value).collect(),
            error,
        }
    }
}
