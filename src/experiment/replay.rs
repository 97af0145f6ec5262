//! Renders a recorded run again: feeds its entries to reporters, without compute.

use std::path::Path;

use super::directory_error::DirectoryError;
use super::journal_file::{JournalError, JournalReader};
use super::manifest::Manifest;
use super::run_directory::{names, read_manifest};
use super::run_error::RunError;
use crate::federation::{Digests, EventSink, SinkError};

/// Result of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The run's manifest.
    pub manifest: Manifest,
    /// Digests of the journal as it lies there.
    pub digests: Digests,
}

/// Feeds the run at `path` to `readers`, checking every line, seal and digest.
///
/// # Errors
/// Returns an error if the journal is cut off or damaged; the readers have then seen what is before it.
pub fn replay(path: &Path, readers: &mut [&mut dyn EventSink]) -> Result<Replayed, RunError> {
    let manifest = read_manifest(path)?;
    let journal = path.join(names::EVENTS);
    let mut reader = JournalReader::open(&journal)?;
    while let Some(entry) = reader.next_entry()? {
        for sink in readers.iter_mut() {
            sink.record(&entry).map_err(|error| match error {
                SinkError::Io(source) => DirectoryError::Write { path: path.to_path_buf(), source },
                SinkError::Stop(why) => {
                    DirectoryError::Unreadable { path: path.to_path_buf(), why }
                }
            })?;
        }
    }
    let digests = reader.digests();
    if manifest.digests.as_ref().is_some_and(|written| *written != digests) {
        return Err(RunError::Journal(JournalError::Damaged {
            path: journal,
            line: reader.entries(),
            why: "its digests are not those of manifest.json".into(),
        }));
    }
    Ok(Replayed { manifest, digests })
}
