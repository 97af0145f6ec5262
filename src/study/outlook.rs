//! Forecast of a study's costs before anything runs: `--plan`.

use serde::Serialize;

use super::collect::Outcome;
use super::prepare::{Invalid, PreparedCell};
use super::{Pace, Study};
use crate::document::Document;
use crate::experiment::RunError;
use crate::experiment::assemble::{blueprint, partition_key};
use crate::experiment::estimate::Estimate;
use crate::experiment::plan::{Faults, Plan, Total, plan, plan_with};
use crate::federation::LabelCountSource;
use crate::methods::Registry;
use crate::quantity::{Bytes, WallSeconds};
use crate::report::{TextTable, grouped};
use crate::scenario::Scenario;

/// Forecast of the cells of a study.
#[derive(Clone, Debug, Default, Serialize, Document)]
pub struct StudyForecast {
    /// Forecasts of the cells, in the order of the study file.
    pub cells: Vec<PlannedCell>,
    /// Number of simultaneous processes.
    pub jobs: usize,
    /// Seconds until all cells are done, estimated from finished cells; `None` before the first one.
    pub seconds_left: Option<f64>,
}

/// Forecast of one cell.
#[derive(Clone, Debug, Serialize, Document)]
pub struct PlannedCell {
    /// Label of the cell, such as `clients=10, method=hgp`.
    pub label: String,
    /// Label of the repetition: the seed of the run, or a number from 1 if these are not distinct.
    pub seed: u64,
    /// Status of the cell.
    pub status: &'static str,
    /// Bytes and work of a run of the cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<Total>,
    /// Wall time in seconds, from finished cells of this study, else as estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Estimate for this machine, if its costs are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Reason why the cell cannot run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Returns the bytes and work of a run of this scenario without faults.
pub(super) fn total(scenario: &Scenario, methods: &Registry) -> Result<Total, RunError> {
    Ok(plan(&blueprint(scenario, methods)?, Faults::Off)?.total)
}

/// Plans of scenarios, of which those that follow each other may have the same partition: it is drawn once.
#[derive(Default)]
struct Planner {
    /// Key of the last partition, and its label counts.
    last: Option<(String, LabelCountSource)>,
}

impl Planner {
    fn plan(&mut self, scenario: &Scenario, methods: &Registry) -> Result<Plan, RunError> {
        let blueprint = blueprint(scenario, methods)?;
        let key = partition_key(scenario);
        let counts = match &self.last {
            Some((known, counts)) if *known == key => counts.clone(),
            _ => blueprint.label_counts()?,
        };
        self.last = Some((key, counts.clone()));
        plan_with(&blueprint, counts, Faults::Off)
    }
}

/// Function that estimates a planned run, if it can.
pub type Estimated<'a> = &'a mut dyn FnMut(&Scenario, &Plan) -> Option<Estimate>;

impl StudyForecast {
    /// Plans every cell of the study.
    pub fn of(
        study: &Study,
        cells: &[(&PreparedCell, &Outcome)],
        invalid: &[Invalid],
        pace: &Pace,
        estimated: Estimated<'_>,
        jobs: usize,
        methods: &Registry,
    ) -> StudyForecast {
        let mut all: Vec<(usize, PlannedCell)> = Vec::new();
        let mut ordered = cells.to_vec();
        ordered.sort_by_cached_key(|(prepared, _)| partition_key(&prepared.scenario));
        let mut planner = Planner::default();
        for (prepared, outcome) in ordered {
            let (plan, error) = match planner.plan(&prepared.scenario, methods) {
                Ok(plan) => (Some(plan), None),
                Err(error) => (None, Some(error.to_string())),
            };
            let estimate = plan.as_ref().and_then(|plan| estimated(&prepared.scenario, plan));
            let total = plan.map(|plan| plan.total);
            let known =
                |total: &Total| pace.seconds(&prepared.scenario.method.name, total.sample_passes);
            let guessed = estimate.as_ref().map(|estimate| estimate.wall_s);
            all.push((
                prepared.cell.index,
                PlannedCell {
                    label: study.label(&prepared.cell.point),
                    seed: prepared.cell.replicate.label,
                    status: outcome.state.word(),
                    seconds: total.as_ref().and_then(known).or(guessed),
                    estimate,
                    total,
                    error,
                },
            ));
        }
        for Invalid { cell, error } in invalid {
            all.push((
                cell.index,
                PlannedCell {
                    label: study.label(&cell.point),
                    seed: cell.replicate.label,
                    status: "invalid",
                    total: None,
                    seconds: None,
                    estimate: None,
                    error: Some(error.to_string()),
                },
            ));
        }
        all.sort_by_key(|(index, _)| *index);
        let cells: Vec<PlannedCell> = all.into_iter().map(|(_, cell)| cell).collect();
        let left = cells.iter().filter(|cell| cell.error.is_none() && cell.status != "done");
        let left: Option<Vec<f64>> = left.map(|cell| cell.seconds).collect();
        let seconds_left =
            left.map(|all| all.iter().fold(0.0, |sum, s| sum + s) / jobs.max(1) as f64);
        StudyForecast { cells, jobs, seconds_left }
    }

    /// Returns true if a cell cannot run.
    pub fn has_errors(&self) -> bool {
        self.cells.iter().any(|cell| cell.error.is_some())
    }

    /// Returns every error once, with the cells that have it.
    fn errors(&self) -> Vec<(&str, Vec<String>)> {
        let mut errors: Vec<(&str, Vec<String>)> = Vec::new();
        for cell in &self.cells {
            let Some(error) = &cell.error else { continue };
            let name = format!("{}, seed {}", cell.label, cell.seed);
            match errors.iter_mut().find(|(other, _)| other == error) {
                Some((_, cells)) => cells.push(name),
                None => errors.push((error, vec![name])),
            }
        }
        errors
    }

    /// Formats memory and disk space, if they are known for every cell.
    fn room(&self) -> String {
        let valid = || self.cells.iter().filter(|cell| cell.error.is_none());
        let of: Option<Vec<&Estimate>> = valid().map(|cell| cell.estimate.as_ref()).collect();
        let Some(of) = of.filter(|of| !of.is_empty()) else { return String::new() };
        let disk = Bytes(of.iter().map(|estimate| estimate.disk).sum());
        let peaks = of.iter().filter_map(|estimate| estimate.costs.peak_memory_mb);
        let memory = peaks.reduce(f64::max).map_or(String::new(), |peak| {
            format!("memory: about {peak:.0} MB in each of {} processes at most\n", self.jobs)
        });
        format!("disk: about {disk}\n{memory}")
    }

    /// Formats the forecast for a terminal.
    pub fn to_text(&self) -> String {
        let heads = ["cell", "seed", "status", "down", "up", "passes", "jobs", "wall"];
        let mut table = TextTable::new(heads);
        for cell in &self.cells {
            let of =
                |figure: fn(&Total) -> String| cell.total.as_ref().map(figure).unwrap_or_default();
            table.row([
                cell.label.clone(),
                cell.seed.to_string(),
                if cell.error.is_some() { "invalid".into() } else { cell.status.to_owned() },
                of(|total| grouped(total.down)),
                of(|total| grouped(total.up)),
                of(|total| grouped(total.sample_passes.round() as u64)),
                of(|total| grouped(total.training_jobs)),
                cell.seconds.map(|s| WallSeconds(s).to_string()).unwrap_or_default(),
            ]);
        }
        let mut text = table.render();
        let sum = |of: fn(&Total) -> u64| -> u64 {
            self.cells.iter().filter_map(|cell| cell.total.as_ref()).map(of).sum()
        };
        let passes = self.cells.iter().filter_map(|cell| Some(cell.total.as_ref()?.sample_passes));
        let runs = self.cells.len();
        text.push_str(&format!(
            "\n{runs} {}: {} bytes down, {} up, {} sample passes in {} training jobs\n",
            if runs == 1 { "run" } else { "runs" },
            grouped(sum(|total| total.down)),
            grouped(sum(|total| total.up)),
            grouped(passes.sum::<f64>().round() as u64),
            grouped(sum(|total| total.training_jobs)),
        ));
        let jobs =
            if self.jobs == 1 { "1 process".into() } else { format!("{} processes", self.jobs) };
        let mut valid = self.cells.iter().filter(|cell| cell.error.is_none()).peekable();
        text.push_str(&match self.seconds_left {
            _ if self.cells.is_empty() => "no run is selected\n".to_owned(),
            _ if valid.peek().is_none() => "none of these runs is valid:\n".to_owned(),
            _ if valid.all(|cell| cell.status == "done") => match self.has_errors() {
                true => "all valid runs are done\n".to_owned(),
                false => "all runs are done\n".to_owned(),
            },
            Some(seconds) => format!(
                "about {} left with {jobs}, estimated from finished cells and trials\n",
                WallSeconds(seconds)
            ),
            None => {
                "wall time: unknown until a cell has run here (--estimate measures costs, --only runs one cell)\n"
                    .to_owned()
            }
        });
        text.push_str(&self.room());
        for (error, cells) in self.errors() {
            let named = match cells.len() {
                count if count > 1 && count == self.cells.len() => format!("all {count} runs"),
                _ => cells.join("; "),
            };
            text.push_str(&format!("\n{named}:\n{}\n", error.trim_end()));
        }
        text
    }
}
