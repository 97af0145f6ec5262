//! The directory of a study: where everything of a cell lies, and what is there already.
//!
//! ```text
//! clients=10,method=hgp/seed-1/             the run directory of a cell
//! clients=10,method=hgp/seed-1.toml         its scenario
//! clients=10,method=hgp/seed-1.log          what its processes said on stderr
//! clients=10,method=hgp/seed-1.failed.json  why it failed, until it is tried again
//! clients=10,method=hgp/seed-1.lock         held by the process that runs it
//! features/                                 features of frozen backbones, where they are shared
//! study.effective.toml  cells.csv ...       see the tables
//! study.lock                                held while tables are written
//! ```
//! Directories of several machines are merged by copying one over the other.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Cell, StudyError};
use crate::experiment::{
    DirectoryError, Status, names, read_manifest, read_summary, write_atomically,
};
use crate::files::{Disk, is_locked};
use crate::report::Summary;

/// The file in the directory of a study that holds the study with every default.
pub const STUDY_FILE: &str = crate::scenario::EFFECTIVE_STUDY;

/// What is known of a cell from its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellState {
    /// Nothing is there.
    Waiting,
    /// A process holds it.
    Running,
    /// A run is there that can be resumed.
    Unfinished,
    Done,
    Failed(Failure),
    /// There is a run of another scenario: its name and hash.
    Foreign(String),
}

/// Why a cell failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Of its scenario.
    pub hash: String,
    /// The exit code of its process; none where a signal ended it.
    pub exit: Option<i32>,
    /// What the process said.
    pub error: String,
}

impl CellState {
    /// As tables have it.
    pub fn word(&self) -> &'static str {
        match self {
            CellState::Waiting => "waiting",
            CellState::Running => "running",
            CellState::Unfinished => "unfinished",
            CellState::Done => "done",
            CellState::Failed(_) => "failed",
            CellState::Foreign(_) => "other scenario",
        }
    }
}

/// The exit code of a run that ended without one aggregated update.
pub(super) const NO_TRAINING: u8 = 7;

/// What is said of such a run.
pub(super) const LEARNT_NOTHING: &str =
    "no update was ever aggregated: the model is the one the run began with";

/// A study's directory. Nothing is made before something is written.
#[derive(Clone, Debug)]
pub struct StudyDirectory {
    root: PathBuf,
}

impl StudyDirectory {
    /// At this place.
    pub fn new(root: PathBuf) -> StudyDirectory {
        StudyDirectory { root }
    }

    /// Refuses the directory of a run.
    ///
    /// # Errors
    /// It is one: a study has files of the same names.
    pub fn refuse_run(&self) -> Result<(), StudyError> {
        match self.root.join(names::MANIFEST).exists() {
            true => Err(StudyError::InsideRun(self.root.clone())),
            false => Ok(()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The run directory of a cell.
    pub fn run(&self, cell: &Cell) -> PathBuf {
        self.root.join(&cell.path)
    }

    /// The scenario of a cell.
    pub fn scenario(&self, cell: &Cell) -> PathBuf {
        self.beside(cell, "toml")
    }

    /// What the processes of a cell said.
    pub fn log(&self, cell: &Cell) -> PathBuf {
        self.beside(cell, "log")
    }

    fn failure(&self, cell: &Cell) -> PathBuf {
        self.beside(cell, "failed.json")
    }

    /// Shared features; absolute, as scenarios have paths.
    pub fn features(&self) -> PathBuf {
        let folder = self.root.join("features");
        std::path::absolute(&folder).unwrap_or(folder)
    }

    fn beside(&self, cell: &Cell, ending: &str) -> PathBuf {
        let mut path = self.run(cell).into_os_string();
        path.push(".");
        path.push(ending);
        path.into()
    }

    /// What is there of a cell whose scenario has this hash.
    pub fn state(&self, cell: &Cell, hash: &str) -> CellState {
        match self.is_held(cell) {
            true => CellState::Running,
            false => self.found(cell, hash),
        }
    }

    /// The same, whoever holds it.
    pub(super) fn found(&self, cell: &Cell, hash: &str) -> CellState {
        let manifest = read_manifest(&self.run(cell)).ok();
        if let Some(manifest) = &manifest
            && manifest.scenario.hash != hash
        {
            let found = format!("{}, {}", manifest.scenario.name, manifest.scenario.hash);
            return CellState::Foreign(found);
        }
        // Before what the manifest says: a run that learned nothing came to its end, and failed.
        if let Some(failure) = self.failed(cell).filter(|failure| failure.hash == hash) {
            return CellState::Failed(failure);
        }
        // Where no file says so its parent was gone before it could.
        let failed =
            |exit, error| CellState::Failed(Failure { hash: hash.to_owned(), exit, error });
        match manifest {
            None => CellState::Waiting,
            Some(manifest) => match manifest.status {
                Status::Done if self.learnt_nothing(cell) => {
                    failed(Some(i32::from(NO_TRAINING)), LEARNT_NOTHING.to_owned())
                }
                Status::Done => CellState::Done,
                Status::Failed => failed(None, manifest.error.unwrap_or_default()),
                _ => CellState::Unfinished,
            },
        }
    }

    /// Whether the run of a cell came to its end without aggregating one update: its figures are those of a model that
    /// was never trained.
    pub(super) fn learnt_nothing(&self, cell: &Cell) -> bool {
        read_summary(&self.run(cell)).is_ok_and(|text| Summary::json_learnt_nothing(&text))
    }

    /// Whether the run of a cell came to its end, whatever it is worth: there is nothing to resume.
    pub(super) fn is_over(&self, cell: &Cell) -> bool {
        read_manifest(&self.run(cell)).is_ok_and(|manifest| manifest.status == Status::Done)
    }

    fn failed(&self, cell: &Cell) -> Option<Failure> {
        serde_json::from_str(&fs::read_to_string(self.failure(cell)).ok()?).ok()
    }

    /// Says that a cell failed, or takes that back.
    pub(super) fn set_failed(
        &self,
        cell: &Cell,
        failure: Option<&Failure>,
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
        is_locked(&self.beside(cell, "lock"))
    }

    /// Holds a cell until the file is dropped; `None` where another process has it.
    pub(super) fn hold(&self, cell: &Cell) -> Result<Option<File>, DirectoryError> {
        let path = self.beside(cell, "lock");
        let file = open_lock(&path)?;
        // Who looks whether a cell is held holds it for a moment.
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

    /// Holds the tables, so that two processes do not write them at once.
    pub(super) fn hold_tables(&self) -> Result<File, DirectoryError> {
        let path = self.root.join("study.lock");
        let file = open_lock(&path)?;
        file.lock().map_err(|source| DirectoryError::Write { path, source })?;
        Ok(file)
    }

    /// Bytes of everything in it; what goes away meanwhile counts nothing.
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
