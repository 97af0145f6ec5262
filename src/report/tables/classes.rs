//! `classes.csv`: accuracy on every class after every task; a head row without test samples has no row.

use std::io::{self, Write};

use serde::Serialize;

use crate::experiment::ClassNames;
use crate::federation::{Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::report::column::{AFTER_TASK, CLASS_NAME, CORRECT, Columns, TOTAL};
use crate::report::csv::{Csv, Number};

#[derive(Columns, Serialize)]
pub(in crate::report) struct ClassRow {
    #[column(as_in = AFTER_TASK)]
    after_task: u32,
    /// Task with which the class arrived, from 1.
    task: u32,
    /// Row of the head, from 0.
    row: u32,
    /// Class of the head row, in the data set's numbers.
    class: u32,
    #[column(as_in = CORRECT)]
    correct: u64,
    #[column(as_in = TOTAL)]
    total: u64,
    /// Accuracy, `correct` / `total`.
    #[column(unit = "share")]
    accuracy: Number,
    #[column(as_in = CLASS_NAME)]
    name: String,
}

/// Writes one row per task learned and class seen.
pub struct ClassesTable<W: Write> {
    csv: Csv<W, ClassRow>,
    /// Class and task (from 1) by head row.
    rows: Vec<(u32, u32)>,
    names: ClassNames,
}

impl<W: Write> ClassesTable<W> {
    /// Writes the header.
    pub fn new(out: W, names: ClassNames) -> io::Result<Self> {
        Ok(ClassesTable { csv: Csv::new(out)?, rows: Vec::new(), names })
    }
}

impl<W: Write + Send> EventSink for ClassesTable<W> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let after_task = match &entry.event {
            Event::TaskStarted { task, classes, .. } => {
                let arrived = u32::from(task.0) + 1;
                self.rows.extend(classes.iter().map(|class| (*class, arrived)));
                return Ok(());
            }
            Event::Evaluated { task, point: EvaluationPoint::Task, .. } => u32::from(task.0) + 1,
            _ => return Ok(()),
        };
        let scores = entry.numbers.iter().flat_map(|numbers| &numbers.classes);
        for score in scores.filter(|score| score.2 > 0) {
            let (row, correct, total) = (score.0, score.1, score.2);
            let (class, task) = self.rows.get(row as usize).copied().unwrap_or((row, after_task));
            let accuracy = Number(correct as f64 / total as f64);
            let name = self.names.of(class).to_owned();
            self.csv.row(&ClassRow {
                after_task,
                task,
                row,
                class,
                correct,
                total,
                accuracy,
                name,
            })?;
        }
        Ok(())
    }
}
