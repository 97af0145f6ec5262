//! `confusion.csv`: true and predicted classes after every task; written with `record.confusion`.
//!
//! The journal records correct predictions only, so this table is written during the tests. A replay copies it, and a
//! resumed run keeps the rows of the tasks that it reads from its journal.

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};

use super::column::{AFTER_TASK, CLASS_NAME, Columns};
use super::kept_table::KeptTable;
use crate::experiment::{ClassNames, DirectoryError, RunDirectory, names as files};
use crate::federation::{Entry, Event, EventSink, SinkError};
use crate::learning::Confusion;
use crate::quantity::TaskId;

#[derive(Clone, Columns, Serialize, Deserialize)]
pub(in crate::report) struct ConfusionRow {
    #[column(as_in = AFTER_TASK)]
    after_task: u32,
    /// True class, in the data set's numbers.
    class: u32,
    /// Class that the model predicted.
    predicted: u32,
    /// Test samples of that class with that prediction, at least 1.
    samples: u64,
    // Versions that recorded no names wrote rows without these.
    #[column(as_in = CLASS_NAME)]
    #[serde(default)]
    name: String,
    /// Name of the class that the model predicted.
    #[serde(default)]
    predicted_name: String,
}

/// Writes one row per task learned, class and predicted class.
pub struct ConfusionTable {
    table: KeptTable<ConfusionRow>,
    /// Classes by head row.
    classes: Vec<u32>,
    names: ClassNames,
    /// Number of entries that an earlier process computed.
    recorded: u64,
    /// Rows that an earlier process wrote.
    before: Vec<ConfusionRow>,
}

impl ConfusionTable {
    /// Creates the file of a run whose first `recorded` entries an earlier process computed.
    pub fn create(
        directory: &RunDirectory,
        recorded: u64,
        names: ClassNames,
    ) -> Result<ConfusionTable, DirectoryError> {
        let path = directory.path().join(files::CONFUSION);
        let before = match (recorded, File::open(&path)) {
            (1.., Ok(file)) => {
                csv::Reader::from_reader(file).into_deserialize().filter_map(Result::ok).collect()
            }
            _ => Vec::new(),
        };
        let table = KeptTable::create(directory, files::CONFUSION, recorded > 0)?;
        Ok(ConfusionTable { table, classes: Vec::new(), names, recorded, before })
    }

    fn class(&self, row: u32) -> u32 {
        self.classes.get(row as usize).copied().unwrap_or(row)
    }

    /// Writes the rows of a task that an earlier process tested.
    fn keep(&mut self, task: TaskId) -> io::Result<()> {
        let after_task = u32::from(task.0) + 1;
        let mut rows = self.before.iter().filter(|row| row.after_task == after_task);
        rows.try_for_each(|row| self.table.row(row))
    }
}

impl EventSink for ConfusionTable {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let recorded = entry.seq < self.recorded;
        if !recorded {
            self.table.kept_all()?;
        }
        match &entry.event {
            Event::TaskStarted { classes, .. } => self.classes.extend(classes),
            Event::TaskEnded { task } if recorded => self.keep(*task)?,
            // No later process computes these rows again once a checkpoint was taken after them.
            Event::TaskEnded { .. } => self.table.sync()?,
            _ => {}
        }
        Ok(())
    }

    fn confused(&mut self, task: TaskId, counts: &Confusion) -> Result<(), SinkError> {
        for ((label, answer), samples) in counts {
            let (class, predicted) = (self.class(*label), self.class(*answer));
            let after_task = u32::from(task.0) + 1;
            let [name, predicted_name] = [class, predicted].map(|id| self.names.of(id).to_owned());
            let samples = *samples;
            self.table.row(&ConfusionRow {
                after_task,
                class,
                predicted,
                samples,
                name,
                predicted_name,
            })?;
        }
        Ok(())
    }
}
