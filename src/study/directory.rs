//! Directory of a study: paths and states of its cells.
//!
//! ```text
//! clients=10,method=hgp/seed-1/             the run directory of a cell
//! clients=10,method=hgp/seed-1.toml         its scenario
//! clients=10,method=hgp/seed-1.log          stderr of its processes
//! clients=10,method=hgp/seed-1.failed.json  reason of its failure, until it is retried
//! clients=10,method=hgp/seed-1.lock         held by the process that runs it
//! features/                                 features of frozen backbones, if they are shared
//! study.effective.toml  cells.csv ...       see the tables
//! study.lock                                held while tables are written
//! ```
//! Directories of several machines are merged by copying one over the other.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::names::LOCK;
use super::{Cell, StudyError};
use crate::experiment::{
    DirectoryError, ScenarioId, Status, names, read_manifest, read_summary, write_atomically,
};
use crate::files::{Disk, is_locked};
use crate::report::Summary;

/// State of a cell, from its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellState {
    /// The cell has no files.
    Waiting,
    /// A process holds the cell's lock.
    Running,
    /// A run exists that can be resumed.
    Unfinished,
    /// The run is complete and has aggregated an update.
    Done,
    /// The run ended with an error, or is complete without an aggregated update.
    Failed(CellFailure),
    /// A run of another scenario exists; its name and hash.
    Foreign(String),
}

/// Failure of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellFailure {
    /// Hash of the cell's scenario.
    pub hash: String,
    /// Exit code of the process; `None` if a signal ended it.
    pub exit: Option<i32>,
    /// Error message of the process.
    pub error: String,
}

impl CellState {
    /// Word for a run of another scenario.
    pub const FOREIGN: &'static str = "other scenario";

    /// Returns the word for the state in tables.
    pub fn word(&self) -> &'static str {
        match self {
            CellState::Waiting => "waiting",
            CellState::Running => "running",
            CellState::Unfinished => "unfinished",
            CellState::Done => "done",
            CellState::Failed(_) => "failed",
            CellState::Foreign(_) => CellState::FOREIGN,
        }
    }
}

/// Exit code of a run that aggregated no update.
pub(super) const NO_TRAINING: u8 = 7;

/// Directory of a study; created with the first file.
#[derive(Clone, Debug)]
pub struct StudyDirectory {
    root: PathBuf,
}

impl StudyDirectory {
    /// Returns the directory at a path.
    pub fn new(root: PathBuf) -> StudyDirectory {
        StudyDirectory { root }
    }

    /// Checks that the directory is no run directory.
    ///
    /// # Errors
    /// Fails if it is one, because a study has files of the same names.
    pub fn refuse_run(&self) -> Result<(), StudyError> {
        match self.root.join(names::MANIFEST).exists() {
            true => Err(StudyError::InsideRun(self.root.clone())),
            false => Ok(()),
        }
    }

    /// Returns the path of the directory, as given.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns the run directory of a cell.
    pub fn run(&self, cell: &Cell) -> PathBuf {
        self.root.join(&cell.path)
    }

    /// Returns the path of a cell's scenario.
    pub fn scenario(&self, cell: &Cell) -> PathBuf {
        self.sibling(cell, "toml")
    }

    /// Returns the path of the log of a cell's processes.
    pub fn log(&self, cell: &Cell) -> PathBuf {
        self.sibling(cell, "log")
    }

    fn failure(&self, cell: &Cell) -> PathBuf {
        self.sibling(cell, "failed.json")
    }

    /// Returns the absolute path of the folder of shared features.
    pub fn features(&self) -> PathBuf {
        let folder = self.root.join("features");
        std::path::absolute(&folder).unwrap_or(folder)
    }

    fn sibling(&self, cell: &Cell, ending: &str) -> PathBuf {
        let mut path = self.run(cell).into_os_string();
        path.push(".");
        path.push(ending);
        path.into()
    }

    /// Returns the state of a cell whose scenario has this hash.
    pub fn state(&self, cell: &Cell, hash: &str) -> CellState {
        match self.is_held(cell) {
            true => CellState::Running,
            false => self.found(cell, hash),
        }
    }

    /// Returns the state of a cell as [`state`](Self::state) does, without checking its lock.
    pub(super) fn found(&self, cell: &Cell, hash: &str) -> CellState {
        let manifest = read_manifest(&self.run(cell)).ok();
        if let Some(manifest) = &manifest
            && manifest.scenario.hash != hash
        {
            let found = format!("{}, {}", manifest.scenario.name, manifest.scenario.hash);
            return CellState::Foreign(found);
        }
        // Its last tasks have the cell's scenario, the first ones had another.
        if let Some(forked) = manifest.as_ref().and_then(|manifest| manifest.forked.as_ref()) {
            let ScenarioId { name, hash } = &forked.scenario;
            return CellState::Foreign(format!("a fork of {name}, {hash}"));
        }
        // Checked before the manifest: a run that aggregated no update is complete, but counts as failed.
        if let Some(failure) = self.failed(cell).filter(|failure| failure.hash == hash) {
            return CellState::Failed(failure);
        }
        // Without a file for the failure, the parent ended before it could write one.
        let failed =
            |exit, error| CellState::Failed(CellFailure { hash: hash.to_owned(), exit, error });
        match manifest {
            None => CellState::Waiting,
            Some(manifest) => match manifest.status {
                Status::Done if self.trained_nothing(cell) => {
                    failed(Some(i32::from(NO_TRAINING)), Summary::TRAINED_NOTHING.to_owned())
                }
                Status::Done => CellState::Done,
                Status::Failed => failed(None, manifest.error.unwrap_or_default()),
                _ => CellState::Unfinished,
            },
        }
    }

    /// Returns true if a cell's run is complete but aggregated no update.
    ///
    /// Its metrics are those of an untrained model.
    pub(super) fn trained_nothing(&self, cell: &Cell) -> bool {
        read_summary(&self.run(cell)).is_ok_and(|text| Summary::json_trained_nothing(&text))
    }

    /// Returns true if a cell's run is complete, even without an update, so that nothing can be resumed.
    pub(super) fn is_over(&self, cell: &Cell) -> bool {
        read_manifest(&self.run(cell)).is_ok_and(|manifest| manifest.status == Status::Done)
    }

    fn failed(&self, cell: &Cell) -> Option<CellFailure> {
        serde_json::from_str(&fs::read_to_string(self.failure(cell)).ok()?).ok()
    }

    /// Writes or removes the file that marks a cell as failed.
    pub(super) fn set_failed(
        &self,
        cell: &Cell,
        failure: Option<&CellFailure>,
    ) -> Result<(), DirectoryError> {
        let path = self.failure(cell);
        match failure {
            Some(failure) => {
                let text = serde_json::to_string_pretty(failure).expect("three plain fields");
                write_atomically(&path, format!("{text}\n").as_bytes())
            }
            None => Disk::default()
                .remove(&path)
                .map_err(|source| DirectoryError::Write { path, source }),
        }
    }

    fn is_held(&self, cell: &Cell) -> bool {
        is_locked(&self.sibling(cell, "lock"))
    }

    /// Locks a cell until the file is dropped; `None` if another process holds the lock.
    pub(super) fn hold(&self, cell: &Cell) -> Result<Option<File>, DirectoryError> {
        let path = self.sibling(cell, "lock");
        let file = open_lock(&path)?;
        // A process that checks the lock holds it for a moment.
        for _ in 0..5 {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(20)),
                Err(TryLockError::Error(source)) => {
                    return Err(DirectoryError::Write { path, source });
                }
            }
        }
        Ok(None)
    }

    /// Locks the tables, so that two processes do not write them at the same time.
    pub(super) fn hold_tables(&self) -> Result<File, DirectoryError> {
        let path = self.root.join(LOCK);
        let file = open_lock(&path)?;
        file.lock().map_err(|source| DirectoryError::Write { path, source })?;
        Ok(file)
    }

    /// Returns the size of all files in bytes; files that are removed meanwhile count 0.
    pub(super) fn size(&self) -> u64 {
        let mut sum = 0;
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(data) if data.is_dir() => folders.push(entry.path()),
                    Ok(data) => sum += data.len(),
                    Err(_) => {}
                }
            }
        }
        sum
    }
}

fn open_lock(path: &Path) -> Result<File, DirectoryError> {
    let disk = Disk::default();
    let folder = path.parent().map_or(Ok(()), |folder| disk.create_folder(folder));
    folder
        .and_then(|()| disk.lock_file(path))
        .map_err(|source| DirectoryError::Write { path: path.to_owned(), source })
}
