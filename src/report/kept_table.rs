//! A table of a run that its journal does not tell. When the run goes on, the rows of what it is only told of come from
//! the file that an earlier process left.
//!
//! That file stands until those rows are gathered: a process that dies before takes nothing away.

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::column::Columns;
use super::csv::Csv;
use crate::experiment::{DirectoryError, RunDirectory};
use crate::files::{Disk, DiskFile};

/// Rows that are kept, then rows that are new.
pub(super) struct KeptTable<R> {
    disk: Disk,
    path: PathBuf,
    rows: Rows<R>,
}

enum Rows<R> {
    /// Those kept so far.
    Kept(Csv<Vec<u8>, R>),
    /// The file with all that are kept, behind which the new ones are written.
    New(Csv<DiskFile, R>),
}

impl<R: Serialize + Columns> KeptTable<R> {
    /// The table of a run that goes on (`resumed`) or begins.
    pub fn create(
        directory: &RunDirectory,
        name: &str,
        resumed: bool,
    ) -> Result<KeptTable<R>, DirectoryError> {
        let (disk, path) = (directory.disk().clone(), directory.path().join(name));
        let rows = match resumed {
            true => Csv::new(Vec::new()).map(Rows::Kept),
            false => disk.create(&path).and_then(Csv::new).map(Rows::New),
        };
        match rows {
            Ok(rows) => Ok(KeptTable { disk, path, rows }),
            Err(source) => Err(DirectoryError::Write { path, source }),
        }
    }

    /// One more row, kept or new.
    pub fn row(&mut self, row: &R) -> io::Result<()> {
        match &mut self.rows {
            Rows::Kept(csv) => csv.row(row),
            Rows::New(csv) => csv.row(row),
        }
    }

    /// All rows that are kept were given: what comes now is new.
    pub fn kept_all(&mut self) -> io::Result<()> {
        let Rows::Kept(csv) = &mut self.rows else { return Ok(()) };
        let kept = std::mem::replace(csv, Csv::after(Vec::new())).into_inner()?;
        self.disk.replace(&self.path, &kept)?;
        self.rows = Rows::New(Csv::after(self.disk.append(&self.path)?));
        Ok(())
    }

    /// Puts the rows where they survive a power cut.
    pub fn sync(&self) -> io::Result<()> {
        match &self.rows {
            Rows::Kept(_) => Ok(()),
            Rows::New(csv) => csv.get_ref().sync_data(),
        }
    }
}
