//! Errors of run directories, with advice.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::manifest::{FORMAT, Status};
use crate::exit::{CommandError, Exit};
use crate::files::shell_word;

/// Reason why a run directory cannot be used.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// Another process holds the lock.
    #[error(
        "{0} is being written by another fedcast process\n  help: wait for it or choose another --out"
    )]
    InUse(PathBuf),
    /// Directory holds something else.
    #[error(
        "{path} holds a run of another scenario ({found})\n  help: choose another --out, or replace it with --force"
    )]
    OtherScenario {
        /// The directory.
        path: PathBuf,
        /// Name and hash of what is there.
        found: String,
    },
    /// The recorded scenario was changed after the run began.
    #[error(
        "{file} is not the scenario of this run (hash {found}, the manifest says {expected})\n  help: restore the file, \
         or run the changed scenario into another folder",
        file = file.display()
    )]
    ChangedScenario {
        /// The file.
        file: PathBuf,
        /// Hash of the file.
        found: String,
        /// Hash in the manifest.
        expected: String,
    },
    /// The requested run exists and is not finished.
    #[error(
        "{path} holds this run, not finished ({})\n  help: continue it with `fedcast resume {word}` or `fedcast run \
                 --resume`, or start it again with --force",
        ended(*status),
        path = path.display(),
        word = shell_word(path)
    )]
    Unfinished {
        /// The directory.
        path: PathBuf,
        /// Status of the run.
        status: Status,
    },
    /// The requested run exists and is complete.
    #[error(
        "{path}: this run is already complete\n  help: `fedcast replay {word}` prints it, --force runs it again",
        path = .0.display(),
        word = shell_word(.0)
    )]
    Finished(PathBuf),
    /// A path that can be no folder.
    #[error("{path} cannot be a run directory: {source}\n  help: choose another --out", path = path.display())]
    NoFolder {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file of the run directory is a link.
    #[error(
        "{0} is a link, and links in a run directory are not followed\n  help: replace it with the file, or remove it"
    )]
    Link(PathBuf),
    /// Directory is not empty and not a run.
    #[error(
        "{0} is not empty and not a run of fedcast\n  help: choose another --out (--force replaces files with names of a run's files and keeps all others)"
    )]
    NotARun(PathBuf),
    /// Tables of one run would be written into the directory of another run.
    #[error("{path} holds another run ({found})\n  help: choose another folder for the tables")]
    OtherRun {
        /// The directory.
        path: PathBuf,
        /// Name and hash of what is there.
        found: String,
    },
    /// Tables would be written into a folder of another program.
    #[error(
        "{0} has a manifest.json that is not of a run of fedcast\n  help: choose another folder for the tables"
    )]
    ForeignManifest(PathBuf),
    /// The run was written in another format.
    #[error(
        "{path}: run directory of format {found}, expected format {FORMAT}\n  help: run the scenario again with this \
                 version (`run --force` replaces the directory), or read it with the build of {writer} that wrote it",
        path = path.display()
    )]
    OtherFormat {
        /// The directory.
        path: PathBuf,
        /// Format of the directory.
        found: u32,
        /// Version that wrote it.
        writer: String,
    },
    /// No run there.
    #[error("{path}: not a run directory: {why}")]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Problem.
        why: String,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Returns the word for how an unfinished run stopped.
fn ended(status: Status) -> String {
    match status {
        // Its process is gone, or it would hold the lock.
        Status::Running => "killed".to_owned(),
        status => status.to_string(),
    }
}

impl DirectoryError {
    /// Returns the error for a folder that could not be made. The path can be no folder, or the file system refused.
    pub(super) fn unmade(path: &Path, source: io::Error) -> DirectoryError {
        use io::ErrorKind::{AlreadyExists, InvalidFilename, IsADirectory, NotADirectory};
        let path = path.to_path_buf();
        match source.kind() {
            AlreadyExists | InvalidFilename | IsADirectory | NotADirectory => {
                DirectoryError::NoFolder { path, source }
            }
            _ => DirectoryError::Write { path, source },
        }
    }
}

impl CommandError for DirectoryError {
    fn exit_code(&self) -> Exit {
        match self {
            DirectoryError::Unfinished { .. } | DirectoryError::Finished(_) => Exit::NothingToDo,
            DirectoryError::InUse(_)
            | DirectoryError::NoFolder { .. }
            | DirectoryError::Link(_)
            | DirectoryError::OtherScenario { .. }
            | DirectoryError::ChangedScenario { .. }
            | DirectoryError::OtherRun { .. }
            | DirectoryError::ForeignManifest(_)
            | DirectoryError::OtherFormat { .. }
            | DirectoryError::NotARun(_)
            | DirectoryError::Unreadable { .. } => Exit::Usage,
            DirectoryError::Read { .. } | DirectoryError::Write { .. } => Exit::Recording,
        }
    }
}
