//! CSV files of a run directory.
//!
//! Each is a consumer of the journal's entries, so a replay writes the same files as the run, byte for byte.

mod bias;
mod bytes;
mod classes;
mod client_tasks;
mod clients;
mod json_lines;
mod matrix;
mod participation;
mod partition;
mod phases;
mod round_rows;
mod rounds;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use bias::BiasTable;
pub use bytes::BytesTable;
pub use classes::ClassesTable;
pub use client_tasks::ClientTasksTable;
pub use clients::ClientsTable;
pub use matrix::MatrixTable;
pub use participation::ParticipationTable;
pub use partition::{copy_tables, write_partition};
pub(super) use phases::Phases;
pub(super) use round_rows::{RoundRow, RoundRows, loss, micro_accuracy};
pub use rounds::RoundsTable;

use super::column::Columns;
use super::dictionary::RunFile;
use super::tensorboard::Tensorboard;
use crate::experiment::{ClassNames, DirectoryError, names};
use crate::federation::{ClosingPolicy, Entry, EventSink, SinkError};
use crate::files::Disk;
use crate::scenario::RecordSection;

/// Tables with their columns, for the data dictionary.
pub(super) fn files() -> Vec<RunFile> {
    let file = |name, about, columns| RunFile { name, about, columns };
    vec![
        file(
            names::ROUNDS,
            "accuracy, loss, virtual time and bytes: one row per round",
            RoundRow::COLUMNS,
        ),
        file(
            names::MATRIX,
            "accuracy on every task after every task: one row per pair",
            matrix::MatrixRow::COLUMNS,
        ),
        file(
            names::CLASSES,
            "accuracy on every class after every task: one row per pair",
            classes::ClassRow::COLUMNS,
        ),
        file(
            names::PARTICIPATION,
            "outcome, loss, bytes and times: one row per round and sampled client",
            participation::ParticipationRow::COLUMNS,
        ),
        file(
            names::CLIENTS,
            "device, link, work and traffic: one row per client that was ever sampled",
            clients::ClientRow::COLUMNS,
        ),
        file(
            names::PARTITION,
            "training samples by client, task and class; not written if clients are new in every round",
            partition::PartitionRow::COLUMNS,
        ),
        file(
            names::BYTES,
            "exact bytes by round, client, direction, outcome and kind; a frame that arrives after its round's rows \
             were written adds a second row of the same key",
            bytes::BytesRow::COLUMNS,
        ),
        file(
            names::CLIENT_TASKS,
            "accuracy on every client task after every stage; only if clients have tasks of their own",
            client_tasks::ClientTaskRow::COLUMNS,
        ),
        file(
            names::BIAS,
            "predictions of every client's model before aggregation; only with record.metrics = [\"federated-bias\"]",
            bias::BiasRow::COLUMNS,
        ),
    ]
}

/// All tables of a run, as files of one folder.
pub struct TableFiles(Vec<Box<dyn EventSink>>);

impl TableFiles {
    /// Creates in `folder` the files that `record` asks for.
    pub fn create(
        folder: &Path,
        record: &RecordSection,
        closing: ClosingPolicy,
        class_names: &ClassNames,
    ) -> Result<TableFiles, DirectoryError> {
        TableFiles::create_on(&Disk::default(), folder, record, closing, class_names)
    }

    /// Creates the files of a run through its disk.
    pub fn create_on(
        disk: &Disk,
        folder: &Path,
        record: &RecordSection,
        closing: ClosingPolicy,
        class_names: &ClassNames,
    ) -> Result<TableFiles, DirectoryError> {
        let named = || class_names.clone();
        let at = |name: &str| {
            let path = folder.join(name);
            move |source| DirectoryError::Write { path, source }
        };
        disk.create_folder(folder).map_err(at(""))?;
        let open = |name: &str| disk.create(&folder.join(name)).map_err(at(name));
        let tensorboard = record.tensorboard.then(|| -> Box<dyn EventSink> {
            let folder = folder.join(names::TENSORBOARD);
            Box::new(Tensorboard::new(disk.clone(), folder, closing))
        });
        let mut tables: Vec<Box<dyn EventSink>> = vec![
            Box::new(
                RoundsTable::new(open(names::ROUNDS)?, open(names::ROUNDS_JSON)?, closing)
                    .map_err(at(names::ROUNDS))?,
            ),
            Box::new(BytesTable::new(open(names::BYTES)?).map_err(at(names::BYTES))?),
            Box::new(ClientsTable::new(open(names::CLIENTS)?).map_err(at(names::CLIENTS))?),
            Box::new(MatrixTable::new(open(names::MATRIX)?).map_err(at(names::MATRIX))?),
            Box::new(
                ClassesTable::new(open(names::CLASSES)?, named()).map_err(at(names::CLASSES))?,
            ),
            Box::new(
                ParticipationTable::new(open(names::PARTICIPATION)?)
                    .map_err(at(names::PARTICIPATION))?,
            ),
            Box::new(ClientTasksTable::new(disk.clone(), folder.join(names::CLIENT_TASKS))),
            Box::new(BiasTable::new(disk.clone(), folder.join(names::BIAS), named())),
        ];
        tables.extend(tensorboard);
        Ok(TableFiles(tables))
    }
}

impl EventSink for TableFiles {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.0.iter_mut().try_for_each(|table| table.record(entry))
    }
}
