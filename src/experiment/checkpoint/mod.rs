//! The folder `checkpoints/` of a run: when one is written, how many stay, which one is intact.

mod file;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use file::{CheckpointMark, decode, encode};

use crate::federation::Snapshot;
use crate::files::{Disk, FileKind};
use crate::scenario::CheckpointSection;

const ENDING: &str = "ckpt";

/// The checkpoints of a run.
#[derive(Debug)]
pub struct Checkpoints {
    disk: Disk,
    folder: PathBuf,
    keep: usize,
    share: f64,
    began: Instant,
    spent: Duration,
}

impl Checkpoints {
    /// Returns the checkpoints of a folder, which need not be there yet.
    pub fn new(disk: Disk, folder: PathBuf, section: &CheckpointSection) -> Checkpoints {
        let (keep, share) = (section.keep as usize, section.max_time_fraction);
        Checkpoints { disk, folder, keep, share, began: Instant::now(), spent: Duration::ZERO }
    }

    /// Returns true if a checkpoint may be written: writing has taken no more than its share of the time.
    pub fn has_time(&self) -> bool {
        self.spent.as_secs_f64() <= self.share * self.began.elapsed().as_secs_f64()
    }

    /// Writes a checkpoint, and removes the oldest ones beyond the number to keep.
    pub fn put(&mut self, mark: &CheckpointMark, snapshot: &Snapshot) -> io::Result<()> {
        let began = Instant::now();
        let content = encode(mark, snapshot).map_err(io::Error::other)?;
        let path = self.folder.join(format!("{:012}.{ENDING}", mark.entries));
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        self.disk.replace(&path, &content).map_err(named)?;
        for old in list(&self.folder)?.into_iter().skip(self.keep) {
            self.disk.remove(&old)?;
        }
        self.spent += began.elapsed();
        Ok(())
    }
}

/// Returns the files of checkpoints in a folder, newest first; none where there is no folder.
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
    // Their names are numbers of entries, all of one length.
    paths.sort_unstable_by(|a, b| b.cmp(a));
    Ok(paths)
}

/// Reads a checkpoint.
///
/// # Errors
/// Returns a description of what is wrong with it.
pub fn read(path: &Path) -> Result<(CheckpointMark, Snapshot), String> {
    decode(&crate::files::read(path, FileKind::Checkpoint).map_err(|error| error.to_string())?)
}
