//! Where models are found.

use std::path::Path;

use super::ExportError;
use crate::experiment::checkpoint;
use crate::experiment::error::ExperimentError;
use crate::experiment::journal_file::JournalReader;
use crate::experiment::run_directory::{DirectoryError, names};
use crate::experiment::{model_file, models};
use crate::federation::{Digest, EvaluationPoint, Event, SnapshotPlace};
use crate::quantity::{Round, TaskId};
use crate::wire::Body;

/// The end of a task in the journal.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub task: TaskId,
    /// The last round before it.
    pub round: Round,
    /// Of the server's state.
    pub digest: Digest,
}

/// The tasks that ended.
pub(super) fn ended(path: &Path) -> Result<Vec<End>, ExperimentError> {
    let mut reader = JournalReader::open(&path.join(names::EVENTS))?;
    let (mut ended, mut last) = (Vec::new(), Round(0));
    // A journal that is cut off is worth as much as is there.
    while let Ok(Some(entry)) = reader.next_entry() {
        match entry.event {
            Event::Evaluated { round, point: EvaluationPoint::Task, .. } => last = round,
            Event::TaskEnded { task } => {
                let digest = entry.numbers.and_then(|numbers| numbers.digest);
                let digest = digest.unwrap_or(Digest(0));
                ended.push(End { task, round: last, digest });
            }
            _ => {}
        }
    }
    Ok(ended)
}

/// The model that the run kept after a task: the file and the state in it, if it is the one that the journal has.
pub(super) fn in_models(path: &Path, end: End) -> Result<Option<(Vec<u8>, Body)>, ExperimentError> {
    let file = path.join(names::MODELS).join(models::file_name(end.task));
    let bytes = match std::fs::read(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|source| DirectoryError::Read { path: file.clone(), source })?,
    };
    let unreadable = |why| ExportError::Unreadable { path: file.clone(), why };
    let state = model_file::decode(&bytes).map_err(unreadable)?;
    let said = model_file::metadata(&bytes).map_err(unreadable)?;
    match said.get("digest") {
        Some(digest) if *digest == end.digest.to_string() => Ok(Some((bytes, state))),
        _ => Err(unreadable("it is of another run or task".to_string()).into()),
    }
}

/// The state in a checkpoint that was written when the task ended.
pub(super) fn in_checkpoints(path: &Path, end: End) -> Result<Option<Body>, ExperimentError> {
    let folder = path.join(names::CHECKPOINTS);
    let files = checkpoint::list(&folder);
    let files = files.map_err(|source| DirectoryError::Read { path: folder, source })?;
    // A damaged one is as good as none.
    let snapshots = files.iter().filter_map(|file| checkpoint::read(file).ok());
    let of_task = |place| place == SnapshotPlace::Task(end.task);
    let found = snapshots.map(|(_, snapshot)| snapshot).find(|snapshot| of_task(snapshot.place));
    Ok(found.map(|snapshot| snapshot.server).filter(|state| Digest(state.digest()) == end.digest))
}
