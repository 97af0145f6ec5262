//! `matrix.csv`: accuracy on task `test_task` after learning task `after_task`, tasks counted from 1.

use std::io::Write;

use serde::Serialize;

use crate::federation::{Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::learning::evaluation::accuracy;
use crate::report::column::{AFTER_TASK, CORRECT, Columns, TOTAL};
use crate::report::csv::{Csv, Number};

#[derive(Columns, Serialize)]
pub(in crate::report) struct MatrixRow {
    #[column(as_in = AFTER_TASK)]
    after_task: u32,
    /// Task whose test samples were evaluated, from 1.
    test_task: u32,
    #[column(as_in = CORRECT)]
    correct: u64,
    #[column(as_in = TOTAL)]
    total: u64,
    /// Accuracy, `correct` / `total`; empty if the task has no test samples.
    #[column(unit = "share")]
    accuracy: Option<Number>,
}

/// Writes one row per pair of tasks.
pub struct MatrixTable<W: Write>(Csv<W, MatrixRow>);

impl<W: Write> MatrixTable<W> {
    /// Writes the header.
    pub fn new(out: W) -> std::io::Result<Self> {
        Csv::new(out).map(MatrixTable)
    }
}

impl<W: Write + Send> EventSink for MatrixTable<W> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let Event::Evaluated { task, point: EvaluationPoint::Task, .. } = &entry.event else {
            return Ok(());
        };
        for score in entry.numbers.iter().flat_map(|numbers| &numbers.tasks) {
            self.0.row(&MatrixRow {
                after_task: u32::from(task.0) + 1,
                test_task: u32::from(score.task.0) + 1,
                correct: score.correct,
                total: score.total,
                accuracy: accuracy(score.correct, score.total).map(Number),
            })?;
        }
        Ok(())
    }
}
