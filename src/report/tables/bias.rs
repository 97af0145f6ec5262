//! `bias.csv`: predictions of every client's model for the test samples of all classes seen, before aggregation.
//!
//! Rounds and tasks count from 1, clients and head rows from 0; `class` is the class of the row, in the data set's
//! numbers. `train_samples` is the number of training samples of the class that the client has, `predicted` the number
//! of test samples for which its model predicted it. The file is written only if `record.metrics` contains
//! `federated-bias`.

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use crate::experiment::ClassNames;
use crate::federation::{Entry, Event, EventSink, SinkError};
use crate::files::{Disk, DiskFile};
use crate::report::column::{CLASS_NAME, CLIENT, Columns, ROUND, TASK};
use crate::report::csv::Csv;

#[derive(Columns, Serialize)]
pub(in crate::report) struct BiasRow {
    #[column(as_in = ROUND)]
    round: u32,
    #[column(as_in = TASK)]
    task: u32,
    #[column(as_in = CLIENT)]
    client: u32,
    /// Row of the head, from 0.
    row: u32,
    /// Class of the head row, in the data set's numbers.
    class: u32,
    /// Training samples of the class that the client has.
    train_samples: u64,
    /// Test samples for which the client's model predicted the class.
    predicted: u64,
    #[column(as_in = CLASS_NAME)]
    name: String,
}

/// Writes one row per client and class, each time that client models are compared.
pub struct BiasTable {
    disk: Disk,
    path: PathBuf,
    /// Writer of the file, created with the first row.
    csv: Option<Csv<DiskFile, BiasRow>>,
    /// Classes of the tasks so far, by head row.
    classes: Vec<u32>,
    names: ClassNames,
}

impl BiasTable {
    /// Creates the table without its file.
    pub fn new(disk: Disk, path: PathBuf, names: ClassNames) -> BiasTable {
        BiasTable { disk, path, csv: None, classes: Vec::new(), names }
    }

    fn csv(&mut self) -> io::Result<&mut Csv<DiskFile, BiasRow>> {
        let csv = match self.csv.take() {
            Some(csv) => csv,
            None => Csv::new(self.disk.create(&self.path)?)?,
        };
        Ok(self.csv.insert(csv))
    }
}

impl EventSink for BiasTable {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let (round, task) = match &entry.event {
            Event::TaskStarted { classes, .. } => {
                self.classes.extend(classes);
                return Ok(());
            }
            Event::FederatedBiasMeasured { round, task, .. } => {
                (round.0 + 1, u32::from(task.0) + 1)
            }
            _ => return Ok(()),
        };
        for own in entry.numbers.iter().flat_map(|numbers| &numbers.responses) {
            for (row, (train_samples, predicted)) in
                own.train_samples.iter().zip(&own.predicted).enumerate()
            {
                let class = self.classes.get(row).copied().unwrap_or(row as u32);
                let (client, row) = (own.client.0, row as u32);
                let (train_samples, predicted) = (*train_samples, *predicted);
                let name = self.names.of(class).to_owned();
                self.csv()?.row(&BiasRow {
                    round,
                    task,
                    client,
                    row,
                    class,
                    train_samples,
                    predicted,
                    name,
                })?;
            }
        }
        Ok(())
    }
}
