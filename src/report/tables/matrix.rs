//! `matrix.csv`: accuracy on task `tested` after learning task `learnt`, tasks counted from 1.

use std::io::Write;

use crate::federation::{Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::report::csv::Csv;

/// Writes one row per pair of tasks.
pub struct MatrixTable<W: Write>(Csv<W>);

impl<W: Write> MatrixTable<W> {
    /// Writes the head.
    pub fn new(out: W) -> std::io::Result<Self> {
        Csv::new(out, &["learnt", "tested", "correct", "total", "accuracy"]).map(MatrixTable)
    }
}

impl<W: Write + Send> EventSink for MatrixTable<W> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let Event::Evaluated { task, point: EvaluationPoint::Task, .. } = &entry.event else {
            return Ok(());
        };
        for score in entry.numbers.iter().flat_map(|numbers| &numbers.tasks) {
            let accuracy = score.correct as f64 / score.total.max(1) as f64;
            self.0.row(&[
                (task.0 + 1).to_string(),
                (score.task.0 + 1).to_string(),
                score.correct.to_string(),
                score.total.to_string(),
                accuracy.to_string(),
            ])?;
        }
        Ok(self.0.flush()?)
    }
}
