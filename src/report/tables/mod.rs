//! The CSV files of a run directory, each a consumer of the journal's entries, so that a
//! replay writes the same files as the run did, byte for byte.

mod bias;
mod bytes;
mod clients;
mod matrix;
mod rounds;
mod slots;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use bias::BiasTable;
pub use bytes::BytesTable;
pub use clients::ClientsTable;
pub use matrix::MatrixTable;
pub use rounds::RoundsTable;
pub(super) use rounds::{loss, micro_accuracy};
pub use slots::SlotsTable;

use crate::experiment::{DirectoryError, names};
use crate::federation::{Entry, EventSink, SinkError};
use crate::files::Disk;

/// All of them, as files of one folder.
pub struct TableFiles(Vec<Box<dyn EventSink>>);

impl TableFiles {
    /// Creates the files in `folder`.
    pub fn create(folder: &Path) -> Result<TableFiles, DirectoryError> {
        TableFiles::create_on(&Disk::default(), folder)
    }

    /// Those of a run, through its disk.
    pub fn create_on(disk: &Disk, folder: &Path) -> Result<TableFiles, DirectoryError> {
        let at = |name: &str| {
            let path = folder.join(name);
            move |source| DirectoryError::Write { path, source }
        };
        disk.create_folder(folder).map_err(at(""))?;
        let open = |name: &str| disk.create(&folder.join(name)).map_err(at(name));
        Ok(TableFiles(vec![
            Box::new(RoundsTable::new(open(names::ROUNDS)?).map_err(at(names::ROUNDS))?),
            Box::new(BytesTable::new(open(names::BYTES)?).map_err(at(names::BYTES))?),
            Box::new(ClientsTable::new(open(names::CLIENTS)?).map_err(at(names::CLIENTS))?),
            Box::new(MatrixTable::new(open(names::MATRIX)?).map_err(at(names::MATRIX))?),
            Box::new(SlotsTable::new(disk.clone(), folder.join(names::SLOTS))),
            Box::new(BiasTable::new(disk.clone(), folder.join(names::BIAS))),
        ]))
    }
}

impl EventSink for TableFiles {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.0.iter_mut().try_for_each(|table| table.record(entry))
    }
}
