//! `slots.csv`: accuracy of every client's own tasks at the end of every period, counted from 1; clients from 0. Only
//! written where clients have such tasks. `own` counts answers among the rows of the client task, `all` those among the
//! rows of all client tasks begun and is empty where that was not asked.

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use crate::federation::{Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::files::{Disk, DiskFile};
use crate::learning::evaluation::accuracy;
use crate::report::column::{CLIENT, Columns};
use crate::report::csv::{Csv, Number};

#[derive(Columns, Serialize)]
pub(in crate::report) struct Row {
    /// Period after which was tested, from 1.
    learnt: u32,
    /// Period of the client task, from 1.
    period: u32,
    #[column(as_in = CLIENT)]
    client: u32,
    /// 1 where its client leaves the client task now, else 0.
    finished: u8,
    /// Right answers among the rows of the client task (task-incremental).
    correct_own: u64,
    /// Right answers among the rows of all client tasks begun (class-incremental); empty where that was not asked.
    correct_all: Option<u64>,
    /// Test images of the client task.
    total: u64,
    /// correct_own over total; empty where the client task has no test images.
    #[column(unit = "share")]
    accuracy_own: Option<Number>,
    /// correct_all over total.
    #[column(unit = "share")]
    accuracy_all: Option<Number>,
}

/// Writes one row per period and client task begun.
pub struct ClientTasksTable {
    disk: Disk,
    path: PathBuf,
    /// Once there is something to write.
    csv: Option<Csv<DiskFile, Row>>,
}

impl ClientTasksTable {
    /// Writes nothing yet.
    pub fn new(disk: Disk, path: PathBuf) -> ClientTasksTable {
        ClientTasksTable { disk, path, csv: None }
    }

    fn csv(&mut self) -> io::Result<&mut Csv<DiskFile, Row>> {
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
        let scores = entry.numbers.iter().flat_map(|numbers| &numbers.slots);
        for score in scores {
            let share = |right: u64| accuracy(right, score.total).map(Number);
            self.csv()?.row(&Row {
                learnt: u32::from(task.0) + 1,
                period: u32::from(score.task.0) + 1,
                client: score.client.0,
                finished: u8::from(score.finished),
                correct_own: score.within,
                correct_all: score.correct,
                total: score.total,
                accuracy_own: share(score.within),
                accuracy_all: score.correct.and_then(share),
            })?;
        }
        Ok(())
    }
}
