//! Ends of tasks in a recorded run, and the checkpoints that were written there.

use std::path::Path;

use super::checkpoint::{self, CheckpointMark};
use super::directory_error::DirectoryError;
use super::journal_file::{JournalError, JournalReader};
use super::run_directory::names;
use crate::federation::{Digest, EvaluationPoint, Event, Snapshot, SnapshotPlace};
use crate::quantity::{Round, TaskId};

/// The end of a task in the journal.
#[derive(Clone, Copy)]
pub struct End {
    pub task: TaskId,
    /// The last round before it.
    pub round: Round,
    /// Digest of the server's state.
    pub digest: Digest,
}

/// Returns the tasks that ended.
pub fn ended(path: &Path) -> Result<Vec<End>, JournalError> {
    let mut reader = JournalReader::open(&path.join(names::EVENTS))?;
    let (mut ended, mut last) = (Vec::new(), Round(0));
    // A journal that is cut off counts up to the cut.
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

/// Says of a run that it has not ended a task, numbered from 1.
pub(super) fn not_ended(task: u32, ended: usize) -> String {
    match ended {
        0 => "has not ended its first task yet".to_owned(),
        ended => format!("has not ended task {task}; it has ended {ended}"),
    }
}

/// Returns the checkpoint that was written when the task ended, where it is still there.
pub fn checkpoint_of(
    path: &Path,
    end: End,
) -> Result<Option<(CheckpointMark, Snapshot)>, DirectoryError> {
    let mut files = Vec::new();
    for folder in [names::CHECKPOINTS, names::FORK] {
        let folder = path.join(folder);
        let found = checkpoint::list(&folder);
        files.extend(found.map_err(|source| DirectoryError::Read { path: folder, source })?);
    }
    // A damaged one is as good as none.
    let mut checkpoints = files.iter().filter_map(|file| checkpoint::read(file).ok());
    Ok(checkpoints.find(|(_, snapshot)| {
        snapshot.place == SnapshotPlace::Task(end.task)
            && Digest(snapshot.server.digest()) == end.digest
    }))
}
