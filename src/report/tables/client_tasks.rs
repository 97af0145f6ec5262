//! `client_tasks.csv`: accuracy on every client task at the end of every stage.
//!
//! Stages count from 1, clients from 0. The file is written only if clients have tasks of their own. `til` counts
//! predictions among the head rows of the client task, `cil` those among the rows of all client tasks begun; `cil` is
//! empty if it was not evaluated.

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use crate::federation::{Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::files::{Disk, DiskFile};
use crate::learning::evaluation::accuracy;
use crate::report::column::{CLIENT, Columns};
use crate::report::csv::{Csv, Number};

#[derive(Columns, Serialize)]
pub(in crate::report) struct ClientTaskRow {
    /// Stage after which the model was tested, from 1.
    after_task: u32,
    /// Stage in which the client task began, from 1.
    stage: u32,
    #[column(as_in = CLIENT)]
    client: u32,
    /// 1 if the client leaves the client task now, else 0.
    finished: u8,
    /// Correct predictions among the head rows of the client task (task-incremental).
    correct_til: u64,
    /// Correct predictions among the head rows of all client tasks begun (class-incremental). Empty if not evaluated.
    correct_cil: Option<u64>,
    /// Test samples of the client task.
    total: u64,
    /// Accuracy, correct_til / total; empty if the client task has no test samples.
    #[column(unit = "share")]
    accuracy_til: Option<Number>,
    /// Accuracy, correct_cil / total; empty if not evaluated.
    #[column(unit = "share")]
    accuracy_cil: Option<Number>,
}

/// Writes one row per stage and client task begun.
pub struct ClientTasksTable {
    disk: Disk,
    path: PathBuf,
    /// Writer of the file, created with the first row.
    csv: Option<Csv<DiskFile, ClientTaskRow>>,
}

impl ClientTasksTable {
    /// Creates the table without its file.
    pub fn new(disk: Disk, path: PathBuf) -> ClientTasksTable {
        ClientTasksTable { disk, path, csv: None }
    }

    fn csv(&mut self) -> io::Result<&mut Csv<DiskFile, ClientTaskRow>> {
        let csv = match self.csv.take() {
            Some(csv) => csv,
            None => Csv::new(self.disk.create(&self.path)?)?,
        };
        Ok(self.csv.insert(csv))
    }
}

impl EventSink for ClientTasksTable {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let Event::Evaluated { task, point: EvaluationPoint::Task, .. } = &entry.event else {
            return Ok(());
        };
        let scores = entry.numbers.iter().flat_map(|numbers| &numbers.client_tasks);
        for score in scores {
            let share = |right: u64| accuracy(right, score.total).map(Number);
            self.csv()?.row(&ClientTaskRow {
                after_task: u32::from(task.0) + 1,
                stage: u32::from(score.task.0) + 1,
                client: score.client.0,
                finished: u8::from(score.finished),
                correct_til: score.within,
                correct_cil: score.correct,
                total: score.total,
                accuracy_til: share(score.within),
                accuracy_cil: score.correct.and_then(share),
            })?;
        }
        Ok(())
    }
}
