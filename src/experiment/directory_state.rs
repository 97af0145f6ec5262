//! State of the directory that a run is to have.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::directory_error::DirectoryError;
use super::manifest::Status;
use super::run_directory::{is_held, names, read_manifest};
use crate::files::PART;

/// Content of a directory, for a scenario that is to run there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryState {
    /// Nothing, or files of a process that was killed before its run began.
    Free,
    /// This run, which can be resumed.
    Unfinished(Status),
    /// This run, complete.
    Done,
    /// A run of another scenario: its name and hash.
    OtherScenario(String),
    /// A run in another format: its number, and the version that wrote it.
    OtherFormat(u32, String),
    /// Files that are no run.
    Foreign,
}

/// Inspects `path` before the scenario with this hash is run there; changes nothing.
///
/// # Errors
/// Returns an error if the path is no folder or cannot be read, or another process computes a run there.
pub fn inspect_directory(path: &Path, hash: &str) -> Result<DirectoryState, DirectoryError> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(DirectoryState::Free),
        entries => entries.map_err(|source| DirectoryError::unmade(path, source))?,
    };
    let manifest = read_manifest(path);
    if let Err(DirectoryError::OtherFormat { found, writer, .. }) = manifest {
        return Ok(DirectoryState::OtherFormat(found, writer));
    }
    if let Ok(there) = manifest {
        return Ok(match there.status {
            _ if there.scenario.hash != hash => DirectoryState::OtherScenario(format!(
                "{}, {}",
                there.scenario.name, there.scenario.hash
            )),
            Status::Done => DirectoryState::Done,
            // Such a run is still computed and need not be resumed.
            _ if is_held(path) => return Err(DirectoryError::InUse(path.to_path_buf())),
            status => DirectoryState::Unfinished(status),
        });
    }
    let own = |name: &str| {
        let whole = name.strip_suffix(PART).unwrap_or(name);
        name == names::LOCK
            || whole == names::SCENARIO
            || whole == names::MANIFEST && name != names::MANIFEST
    };
    let foreign = entries.flatten().any(|entry| !entry.file_name().to_str().is_some_and(own));
    Ok(if foreign { DirectoryState::Foreign } else { DirectoryState::Free })
}

impl DirectoryState {
    /// Returns an error unless a run may begin here without `--force`.
    ///
    /// # Errors
    /// Returns an error that describes the content, with advice.
    pub fn check_can_begin(self, path: &Path) -> Result<(), DirectoryError> {
        let path = path.to_path_buf();
        Err(match self {
            DirectoryState::Free => return Ok(()),
            DirectoryState::Unfinished(status) => DirectoryError::Unfinished { path, status },
            DirectoryState::Done => DirectoryError::Finished(path),
            DirectoryState::OtherScenario(found) => DirectoryError::OtherScenario { path, found },
            DirectoryState::OtherFormat(found, writer) => {
                DirectoryError::OtherFormat { path, found, writer }
            }
            DirectoryState::Foreign => DirectoryError::NotARun(path),
        })
    }
}
