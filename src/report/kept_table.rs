//! Table of a run that cannot be derived from its journal.
//!
//! When the run is resumed, the rows of the entries read from the journal come from the file that an earlier process
//! wrote.
//!
//! That file is kept until those rows are collected, so a process that dies earlier loses nothing.

use std::io;
use std::path::PathBuf;

use serde::Serialize;

use super::column::Columns;
use super::csv::Csv;
use crate::experiment::{DirectoryError, RunDirectory};
use crate::files::{Disk, DiskFile};

/// Table with the rows of an earlier process, to which new rows are appended.
pub(super) struct KeptTable<R> {
    disk: Disk,
    path: PathBuf,
    rows: TableRows<R>,
}

enum TableRows<R> {
    /// Rows of an earlier process collected so far.
    Kept(Csv<Vec<u8>, R>),
    /// File with all rows of an earlier process, to which new ones are appended.
    New(Csv<DiskFile, R>),
}

impl<R: Serialize + Columns> KeptTable<R> {
    /// Opens the table of a run: `resumed` if an earlier process wrote rows, else with a new file.
    pub fn create(
        directory: &RunDirectory,
        name: &str,
        resumed: bool,
    ) -> Result<KeptTable<R>, DirectoryError> {
        let (disk, path) = (directory.disk().clone(), directory.path().join(name));
        let rows = match resumed {
            true => Csv::new(Vec::new()).map(TableRows::Kept),
            false => disk.create(&path).and_then(Csv::new).map(TableRows::New),
        };
        match rows {
            Ok(rows) => Ok(KeptTable { disk, path, rows }),
            Err(source) => Err(DirectoryError::Write { path, source }),
        }
    }

    /// Writes a row, of an earlier process or new.
    pub fn row(&mut self, row: &R) -> io::Result<()> {
        match &mut self.rows {
            TableRows::Kept(csv) => csv.row(row),
            TableRows::New(csv) => csv.row(row),
        }
    }

    /// Ends the rows of an earlier process: replaces the file by these rows and appends later ones to it.
    pub fn kept_all(&mut self) -> io::Result<()> {
        let TableRows::Kept(csv) = &mut self.rows else { return Ok(()) };
        let kept = std::mem::replace(csv, Csv::after(Vec::new())).into_inner()?;
        self.disk.replace(&self.path, &kept)?;
        self.rows = TableRows::New(Csv::after(self.disk.append(&self.path)?));
        Ok(())
    }

    /// Flushes the rows to disk.
    pub fn sync(&self) -> io::Result<()> {
        match &self.rows {
            TableRows::Kept(_) => Ok(()),
            TableRows::New(csv) => csv.get_ref().sync_data(),
        }
    }
}
