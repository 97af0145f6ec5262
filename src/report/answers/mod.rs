//! Tables of the answers to test samples after every task: `confusion.csv` and `predictions.csv`.
//!
//! The journal records the number of correct predictions only, so these tables are written during the tests. A replay
//! copies them, and a resumed run keeps the rows of the tasks that it reads from its journal.

mod confusion;
mod predictions;

use std::fs::File;
use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(in crate::report) use self::confusion::ConfusionRow;
pub(in crate::report) use self::predictions::PredictionRow;
use super::column::Columns;
use super::kept_table::KeptTable;
use crate::experiment::{ClassNames, DirectoryError, RunDirectory};
use crate::federation::{Entry, Event, EventSink, SampleAnswer, SinkError};
use crate::quantity::TaskId;

/// Row of a table of answers.
pub(super) trait AnswerRow: Columns + Serialize + DeserializeOwned + Send {
    /// Name of the file.
    const FILE: &'static str;

    /// Returns the number of tasks learned before the test.
    fn after_task(&self) -> u32;

    /// Returns the rows of a test.
    fn rows(after_task: u32, answers: &[SampleAnswer], classes: &AnswerClasses) -> Vec<Self>;
}

/// Classes of answers.
pub(super) struct AnswerClasses {
    /// Classes by head row.
    by_row: Vec<u32>,
    names: ClassNames,
}

impl AnswerClasses {
    /// Returns the class of a head row and its name.
    fn of(&self, row: u32) -> (u32, String) {
        let class = self.by_row.get(row as usize).copied().unwrap_or(row);
        (class, self.names.of(class).to_owned())
    }
}

/// Table of answers that grows with the run.
pub(super) struct AnswerTable<R> {
    table: KeptTable<R>,
    classes: AnswerClasses,
    /// Number of entries that an earlier process computed.
    recorded: u64,
    /// Rows that an earlier process wrote.
    before: Vec<R>,
}

impl<R: AnswerRow> AnswerTable<R> {
    /// Creates the file of a run whose first `recorded` entries an earlier process computed.
    pub fn create(
        directory: &RunDirectory,
        recorded: u64,
        names: ClassNames,
    ) -> Result<AnswerTable<R>, DirectoryError> {
        let before = match (recorded, File::open(directory.path().join(R::FILE))) {
            (1.., Ok(file)) => {
                csv::Reader::from_reader(file).into_deserialize().filter_map(Result::ok).collect()
            }
            _ => Vec::new(),
        };
        let table = KeptTable::create(directory, R::FILE, recorded > 0)?;
        let classes = AnswerClasses { by_row: Vec::new(), names };
        Ok(AnswerTable { table, classes, recorded, before })
    }

    /// Writes the rows of a task that an earlier process tested.
    fn keep(&mut self, task: TaskId) -> io::Result<()> {
        let mut rows = self.before.iter().filter(|row| row.after_task() == after(task));
        rows.try_for_each(|row| self.table.row(row))
    }
}

impl<R: AnswerRow> EventSink for AnswerTable<R> {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let recorded = entry.seq < self.recorded;
        if !recorded {
            self.table.kept_all()?;
        }
        match &entry.event {
            Event::TaskStarted { classes, .. } => self.classes.by_row.extend(classes),
            Event::TaskEnded { task } if recorded => self.keep(*task)?,
            // No later process computes these rows again once a checkpoint was taken after them.
            Event::TaskEnded { .. } => self.table.sync()?,
            _ => {}
        }
        Ok(())
    }

    fn answered(&mut self, task: TaskId, answers: &[SampleAnswer]) -> Result<(), SinkError> {
        let rows = R::rows(after(task), answers, &self.classes);
        Ok(rows.iter().try_for_each(|row| self.table.row(row))?)
    }
}

/// Returns the number of tasks learned when a task has ended.
fn after(task: TaskId) -> u32 {
    u32::from(task.0) + 1
}
