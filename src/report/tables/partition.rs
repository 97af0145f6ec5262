//! `partition.csv`: training samples of every client by task and class.
//!
//! Rows without samples are left out; there is no file if clients are new in every round.
//!
//! The table is derived from scenario and data, not from the journal, so a replay copies it.

use std::io;
use std::path::Path;

use serde::Serialize;

use crate::experiment::{
    ClassNames, DirectoryError, Holding, RunDirectory, names, write_atomically,
};
use crate::report::column::{CLASS_NAME, CLIENT, Columns, TASK};
use crate::report::csv::Csv;

#[derive(Columns, Serialize)]
pub(in crate::report) struct PartitionRow {
    #[column(as_in = TASK)]
    task: u32,
    #[column(as_in = CLIENT)]
    client: u32,
    /// Class, in the data set's numbers.
    class: u32,
    /// Training samples of the class that the client has in the task, at least 1.
    samples: u64,
    #[column(as_in = CLASS_NAME)]
    name: String,
}

/// Returns the table as the bytes of a CSV file.
pub fn partition_csv(holdings: &[Holding], names: &ClassNames) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut csv = Csv::new(&mut text)?;
    for Holding { task, client, class, samples } in holdings {
        let (task, client) = (u32::from(task.0) + 1, client.0);
        let name = names.of(*class).to_owned();
        csv.row(&PartitionRow { task, client, class: *class, samples: *samples, name })?;
    }
    drop(csv);
    Ok(text)
}

/// Writes the table into the directory of a run.
pub fn write_partition(
    run: &RunDirectory,
    holdings: &[Holding],
    class_names: &ClassNames,
) -> Result<(), DirectoryError> {
    let path = run.path().join(names::PARTITION);
    let text = partition_csv(holdings, class_names);
    let text = text.map_err(|source| DirectoryError::Write { path, source })?;
    run.write(names::PARTITION, &text)
}

/// Copies the tables of a run that are not derived from its journal into `folder`.
pub fn copy_tables(run: &Path, folder: &Path) -> Result<(), DirectoryError> {
    for name in [names::PARTITION, names::CONFUSION, names::PREDICTIONS] {
        let path = run.join(name);
        match std::fs::read(&path) {
            Ok(text) => write_atomically(&folder.join(name), &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(DirectoryError::Read { path, source }),
        }
    }
    Ok(())
}
