//! Progress of a run for a callback: one report per closed round and per evaluation.

use std::sync::mpsc::Sender;

use fedcast::federation::{Direction, Entry, Event, EventSink, SinkError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::attend::Report;

/// State of a run after a round closed or the model was evaluated; rounds and tasks count from 1.
#[derive(Clone, Debug, Default)]
pub struct RoundReport {
    event: &'static str,
    tasks: u32,
    task: u32,
    round: u32,
    virtual_time_s: f64,
    aggregated: u32,
    bytes_down: u64,
    bytes_up: u64,
    accuracy: Option<f64>,
}

impl Report for RoundReport {
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let of = PyDict::new(py);
        of.set_item("event", self.event)?;
        of.set_item("task", self.task)?;
        of.set_item("tasks", self.tasks)?;
        of.set_item("round", self.round)?;
        of.set_item("virtual_time_s", self.virtual_time_s)?;
        of.set_item("aggregated", self.aggregated)?;
        of.set_item("bytes_down", self.bytes_down)?;
        of.set_item("bytes_up", self.bytes_up)?;
        of.set_item("accuracy", self.accuracy)?;
        Ok(of)
    }
}

/// Sends reports to the thread that called from Python.
pub struct Reporter {
    to: Sender<RoundReport>,
    now: RoundReport,
    /// Entries that an earlier process has reported.
    known: u64,
}

impl Reporter {
    /// Creates a reporter that skips the first `known` entries.
    pub fn new(to: Sender<RoundReport>, known: u64) -> Reporter {
        Reporter { to, now: RoundReport::default(), known }
    }

    fn send(&mut self, event: &'static str, entry: &Entry) {
        self.now.event = event;
        self.now.virtual_time_s = entry.at.as_seconds();
        if entry.seq >= self.known {
            // The receiver lives as long as the run.
            let _ = self.to.send(self.now.clone());
        }
    }
}

impl EventSink for Reporter {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        match &entry.event {
            Event::RunStarted { tasks, .. } => self.now.tasks = *tasks,
            Event::FrameCharged { direction, bytes, .. } => match direction {
                Direction::Down => self.now.bytes_down += bytes.frame(),
                Direction::Up => self.now.bytes_up += bytes.frame(),
            },
            Event::RoundClosed { round, task, aggregated, .. } => {
                self.now.round = round.0 + 1;
                self.now.task = u32::from(task.0) + 1;
                self.now.aggregated = *aggregated;
                self.send("round_closed", entry);
            }
            Event::Evaluated { .. } => {
                let tasks = entry.numbers.as_ref().map(|numbers| &numbers.tasks[..]);
                let tasks = tasks.unwrap_or_default();
                let (correct, total) = tasks.iter().fold((0, 0), |(correct, total), score| {
                    (correct + score.correct, total + score.total)
                });
                self.now.accuracy = (total > 0).then(|| correct as f64 / total as f64);
                self.send("evaluated", entry);
            }
            _ => {}
        }
        Ok(())
    }
}
