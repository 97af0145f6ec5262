//! Directory of one run: its files, its lock, and atomic writes.
//!
//! ```text
//! manifest.json            scenario, inputs, machine, status; rewritten when the run ends
//! scenario.effective.toml  the scenario with every default written out; runs to the same digests
//! events.jsonl             the journal, appended and flushed during the run
//! rounds.csv bytes.csv clients.csv matrix.csv classes.csv participation.csv   tables derived from the journal
//! rounds.jsonl             rounds.csv as flat JSON objects
//! partition.csv            samples by client and class; from scenario and data
//! client_tasks.csv         if clients have their own tasks
//! bias.csv                 if client models are compared before aggregation
//! summary.json             the numbers of the final table
//! wall.csv profile.jsonl   wall times; outside both digests
//! confusion.csv            confusion matrices, with record.confusion; not derived from the journal
//! predictions.csv          predicted classes of test samples, with record.predictions; not derived from the journal
//! *.parquet                the tables as Parquet, with record.parquet
//! tensorboard/             scalars for TensorBoard, with record.tensorboard
//! models/task-*.safetensors  the server's model after tasks, with record.models
//! histograms/*.hgrm        distributions of frame sizes and latencies
//! checkpoints/*.ckpt       checkpoints to resume a run from, newest last
//! fork/                    start of a forked run: earlier scenarios and a checkpoint
//! inversion/               what `fedcast invert` found in an upload
//! run.lock                 held by the writing process; the system frees it with the process
//! ```
//!
//! A directory that another process writes is refused, and so is one in which something stands already
//! ([`inspect_directory`]): a run, done or not, of this scenario or another, or other files. `--force` replaces it. A
//! run is
//! recognized by a manifest that can be read, not by its name: other programs write a `manifest.json`, too.
//! Replacing removes only the files named above, so a mistyped `--out` never deletes other files.
//!
//! Whenever a process is killed, the next one can take the directory: a new run writes its scenario, then its
//! manifest, and from then on it can be resumed; a run that is replaced says `running` before any of
//! its files is removed.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::directory_error::DirectoryError;
use super::directory_state::inspect_directory;
use super::manifest::{FORMAT, Manifest, Status};
use crate::files::{Disk, DiskFile, FileKind, PART, is_link, is_locked, read_text};
use crate::scenario::Scenario;

/// File names of a run directory.
pub mod names {
    /// Manifest of the run.
    pub const MANIFEST: &str = "manifest.json";
    /// The scenario with every default.
    pub const SCENARIO: &str = crate::scenario::EFFECTIVE_SCENARIO;
    /// The journal.
    pub const EVENTS: &str = "events.jsonl";
    /// One row per round.
    pub const ROUNDS: &str = "rounds.csv";
    /// Rows of rounds as flat JSON objects.
    pub const ROUNDS_JSON: &str = "rounds.jsonl";
    /// One row per round, client, direction, kind and outcome.
    pub const BYTES: &str = "bytes.csv";
    /// One row per client.
    pub const CLIENTS: &str = "clients.csv";
    /// One row per (task learned, task tested).
    pub const MATRIX: &str = "matrix.csv";
    /// One row per (stage, client task begun), if clients have their own tasks.
    pub const CLIENT_TASKS: &str = "client_tasks.csv";
    /// One row per comparison, client and class, where client models are compared.
    pub const BIAS: &str = "bias.csv";
    /// One row per task learned and class seen.
    pub const CLASSES: &str = "classes.csv";
    /// One row per task learned, class and answer, where the scenario asks for it.
    pub const CONFUSION: &str = "confusion.csv";
    /// One row per task learned and test sample, where the scenario asks for it.
    pub const PREDICTIONS: &str = "predictions.csv";
    /// One row per round and client.
    pub const PARTICIPATION: &str = "participation.csv";
    /// One row per task, client and class that the client has samples of.
    pub const PARTITION: &str = "partition.csv";
    /// One row per round with its wall times.
    pub const WALL: &str = "wall.csv";
    /// Metrics of the final table.
    pub const SUMMARY: &str = "summary.json";
    /// Wall times, outside the digests.
    pub const PROFILE: &str = "profile.jsonl";
    /// Folder of distributions.
    pub const HISTOGRAMS: &str = "histograms";
    /// Folder of scalars for TensorBoard, where the scenario asks for them.
    pub const TENSORBOARD: &str = "tensorboard";
    /// Folder of the server's models after tasks, where the scenario asks for them.
    pub const MODELS: &str = "models";
    /// Folder of checkpoints.
    pub const CHECKPOINTS: &str = "checkpoints";
    /// Folder with the start of a forked run.
    pub const FORK: &str = "fork";
    /// Folder of the results of an inversion of an upload.
    pub const INVERSION: &str = "inversion";
    /// File that is locked while a process writes to the directory.
    pub const LOCK: &str = "run.lock";
}

/// Folders of a run, with the file name extension of their files.
const FOLDERS: [(&str, &str); 9] = [
    (names::HISTOGRAMS, ".hgrm"),
    (names::CHECKPOINTS, ".ckpt"),
    (names::TENSORBOARD, ".fedcast"),
    (names::MODELS, ".safetensors"),
    (names::FORK, ".toml"),
    (names::FORK, ".ckpt"),
    (names::INVERSION, ".json"),
    (names::INVERSION, ".csv"),
    (names::INVERSION, ".png"),
];

/// Files that a run writes while it goes on, and at its end.
const RESULTS: &[&str] = &[
    names::EVENTS,
    names::ROUNDS,
    names::ROUNDS_JSON,
    names::CLASSES,
    names::PARTICIPATION,
    names::PARTITION,
    names::CONFUSION,
    names::PREDICTIONS,
    names::WALL,
    names::BYTES,
    names::CLIENTS,
    names::MATRIX,
    names::CLIENT_TASKS,
    // The same table in directories of format 1, which `--force` replaces.
    "slots.csv",
    names::BIAS,
    names::SUMMARY,
    names::PROFILE,
];

/// A run directory held for writing.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    disk: Disk,
    // Held, never read: dropping it frees the lock.
    _lock: File,
}

impl RunDirectory {
    /// Takes `path` for the run of the scenario with this hash and leaves it empty of earlier
    /// results. What is there already, see [`inspect_directory`], is replaced only with `force`.
    pub fn claim(path: &Path, hash: &str, force: bool) -> Result<RunDirectory, DirectoryError> {
        RunDirectory::claim_on(&Disk::default(), path, hash, force)
    }

    pub(super) fn claim_on(
        disk: &Disk,
        path: &Path,
        hash: &str,
        force: bool,
    ) -> Result<RunDirectory, DirectoryError> {
        // Checked before the lock is taken, too, so that no lock file is written into a foreign folder.
        if !force {
            inspect_directory(path, hash)?.check_can_begin(path)?;
        }
        disk.create_folder(path).map_err(|source| DirectoryError::unmade(path, source))?;
        refuse_links(path)?;
        let lock = take_lock(disk, path)?;
        if !force {
            inspect_directory(path, hash)?.check_can_begin(path)?;
        }
        let directory = RunDirectory { path: path.to_path_buf(), disk: disk.clone(), _lock: lock };
        // Until its manifest is removed, the old run counts as one that can be resumed.
        if let Ok(there) = read_manifest(path) {
            directory.write_manifest(&there.reopened())?;
        }
        directory.clear()?;
        directory.remove(&[names::MANIFEST, names::SCENARIO])?;
        Ok(directory)
    }

    /// Takes the directory of a run that is resumed. All files stay, except unfinished ones.
    pub fn reopen(path: &Path) -> Result<RunDirectory, DirectoryError> {
        RunDirectory::reopen_on(&Disk::default(), path)
    }

    pub(super) fn reopen_on(disk: &Disk, path: &Path) -> Result<RunDirectory, DirectoryError> {
        refuse_links(path)?;
        let lock = take_lock(disk, path)?;
        let directory = RunDirectory { path: path.to_path_buf(), disk: disk.clone(), _lock: lock };
        directory.remove_parts()?;
        Ok(directory)
    }

    /// Removes what a run wrote, but for its scenario and manifest: a program killed meanwhile
    /// leaves a run that can still be resumed.
    pub(super) fn clear(&self) -> Result<(), DirectoryError> {
        self.remove(RESULTS)?;
        for table in RESULTS.iter().filter_map(|name| name.strip_suffix(".csv")) {
            self.remove(&[&format!("{table}.parquet")])?;
        }
        self.remove_parts()?;
        for (name, ending) in FOLDERS {
            let folder = self.path.join(name);
            for file in files_of(&folder, |name| name.ends_with(ending))? {
                self.remove_file(&file)?;
            }
            // Files that are not of fedcast stay, and with them their folder.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// Removes the run: only files that a run writes, and the folder if it is then empty.
    ///
    /// Returns true if the folder was removed.
    pub fn delete(self) -> Result<bool, DirectoryError> {
        // The manifest goes first, so that a process killed halfway leaves nothing that looks like a run.
        self.remove(&[names::MANIFEST, names::SCENARIO])?;
        self.clear()?;
        self.remove(&[names::LOCK])?;
        let path = self.path.clone();
        // A lock on a removed file keeps no process out, but some systems do not remove what is open.
        drop(self);
        Ok(fs::remove_dir(&path).is_ok())
    }

    /// Removes files that a process was writing when it was killed.
    fn remove_parts(&self) -> Result<(), DirectoryError> {
        let whole = |name: &str| name.strip_suffix(PART).map(str::to_owned);
        let mut parts = files_of(&self.path, |name| whole(name).is_some_and(|n| is_of_a_run(&n)))?;
        for (name, ending) in FOLDERS {
            let of_it = |name: &str| whole(name).is_some_and(|name| name.ends_with(ending));
            parts.extend(files_of(&self.path.join(name), of_it)?);
        }
        parts.iter().try_for_each(|part| self.remove_file(part))
    }

    fn remove(&self, names: &[&str]) -> Result<(), DirectoryError> {
        names.iter().try_for_each(|name| self.remove_file(&self.path.join(name)))
    }

    fn remove_file(&self, file: &Path) -> Result<(), DirectoryError> {
        let failed = |source| DirectoryError::Write { path: file.to_path_buf(), source };
        self.disk.remove(file).map_err(failed)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the disk through which it is written.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Opens a file that grows during the run.
    pub fn append(&self, name: &str) -> Result<DiskFile, DirectoryError> {
        let path = self.path.join(name);
        self.disk.append(&path).map_err(|source| DirectoryError::Write { path, source })
    }

    /// Writes a whole file so that a reader sees the old content or the new, never a half.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), DirectoryError> {
        write_atomically_on(&self.disk, &self.path.join(name), content)
    }

    /// Replaces `manifest.json`, so that a reader sees the old one or the new one.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), DirectoryError> {
        self.write(names::MANIFEST, manifest.to_json().as_bytes())
    }
}

/// Holds a folder for tables that are written again from the run with the manifest `of`.
///
/// The run's own directory may be written to unless it still grows; that of another run may
/// not, nor a folder whose `manifest.json` is of another program. The lock lasts as long as the
/// file that is answered; a folder without a manifest needs none.
pub fn hold_for_tables(path: &Path, of: &Manifest) -> Result<Option<File>, DirectoryError> {
    if !path.join(names::MANIFEST).exists() && !path.join(names::LOCK).exists() {
        return Ok(None);
    }
    let lock = take_lock(&Disk::default(), path)?;
    if !path.join(names::MANIFEST).exists() {
        return Ok(Some(lock));
    }
    match read_manifest(path) {
        Ok(there) if there == *of => Ok(Some(lock)),
        Ok(there) => Err(DirectoryError::OtherRun {
            path: path.to_path_buf(),
            found: format!("{}, {}", there.scenario.name, there.scenario.hash),
        }),
        Err(error @ DirectoryError::OtherFormat { .. }) => Err(error),
        Err(_) => Err(DirectoryError::ForeignManifest(path.to_path_buf())),
    }
}

/// Returns true if some process writes into the run at `path` now.
pub fn is_held(path: &Path) -> bool {
    is_locked(&path.join(names::LOCK))
}

/// Returns true if a run whose manifest says `running` was killed: no process writes into it any more.
pub fn was_killed(path: &Path, manifest: &Manifest) -> bool {
    manifest.status == Status::Running && !is_held(path)
}

fn take_lock(disk: &Disk, path: &Path) -> Result<File, DirectoryError> {
    let lock_path = path.join(names::LOCK);
    let lock = disk
        .lock_file(&lock_path)
        .map_err(|source| DirectoryError::Write { path: lock_path.clone(), source })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(DirectoryError::InUse(path.to_path_buf())),
        Err(TryLockError::Error(source)) => Err(DirectoryError::Write { path: lock_path, source }),
    }
}

/// The part of a manifest that every format has.
#[derive(Deserialize)]
struct ManifestHeader {
    format: u32,
    fedcast: String,
    #[serde(default)]
    commit: Option<String>,
}

/// Reads the manifest of the run at `path`.
///
/// # Errors
/// Returns an error if there is none, if it is damaged, or if it is of another [`FORMAT`].
pub fn read_manifest(path: &Path) -> Result<Manifest, DirectoryError> {
    let unreadable = |why: String| DirectoryError::Unreadable { path: path.to_path_buf(), why };
    let text = read_text(&path.join(names::MANIFEST), FileKind::Manifest)
        .map_err(|error| unreadable(format!("manifest.json: {error}")))?;
    let manifest = serde_json::from_str::<Manifest>(&text);
    if !manifest.as_ref().is_ok_and(|manifest| manifest.format == FORMAT)
        && let Ok(ManifestHeader { format, fedcast, commit }) = serde_json::from_str(&text)
        && format != FORMAT
    {
        let commit = commit.map(|commit| format!(" (commit {commit})")).unwrap_or_default();
        let (path, writer) = (path.to_path_buf(), format!("fedcast {fedcast}{commit}"));
        return Err(DirectoryError::OtherFormat { path, found: format, writer });
    }
    manifest.map_err(|error| unreadable(format!("manifest.json: {error}")))
}

/// Checks that a scenario file of a run directory has the hash that was recorded.
///
/// # Errors
/// Returns an error if its hash is another one.
pub(super) fn check_scenario(
    file: &Path,
    scenario: &Scenario,
    expected: &str,
) -> Result<(), DirectoryError> {
    let found = scenario.hash();
    if found == expected {
        return Ok(());
    }
    let (file, expected) = (file.to_path_buf(), expected.to_owned());
    Err(DirectoryError::ChangedScenario { file, found, expected })
}

/// Returns the text of the summary of the run at `path`.
pub fn read_summary(path: &Path) -> Result<String, DirectoryError> {
    let path = path.join(names::SUMMARY);
    read_text(&path, FileKind::Table).map_err(|source| DirectoryError::Read { path, source })
}

/// Refuses links: a foreign run directory must not make this program write elsewhere.
fn refuse_links(path: &Path) -> Result<(), DirectoryError> {
    let folders = FOLDERS.map(|(name, _)| name);
    let single = [names::MANIFEST, names::SCENARIO, names::LOCK];
    let known = RESULTS.iter().chain(&folders).chain(&single);
    match known.map(|name| path.join(name)).find(|path| is_link(path)) {
        Some(link) => Err(DirectoryError::Link(link)),
        None => Ok(()),
    }
}

/// Returns the files of a folder with such names. None if there is no folder, which is reported when it is needed.
fn files_of(folder: &Path, own: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, DirectoryError> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let read = |source| DirectoryError::Read { path: folder.to_path_buf(), source };
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(Vec::new()),
        entries => entries.map_err(read)?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut files: Vec<PathBuf> = paths.collect::<io::Result<_>>().map_err(read)?;
    files.retain(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&own));
    files.sort_unstable();
    Ok(files)
}

fn is_of_a_run(name: &str) -> bool {
    let table = name.strip_suffix(".parquet").map(|table| format!("{table}.csv"));
    let name = table.as_deref().unwrap_or(name);
    RESULTS.contains(&name) || [names::MANIFEST, names::SCENARIO].contains(&name)
}

/// Writes next to the target, flushes to the device, renames.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<(), DirectoryError> {
    write_atomically_on(&Disk::default(), path, content)
}

/// Writes as [`write_atomically`] does, through the disk of a run.
pub fn write_atomically_on(disk: &Disk, path: &Path, content: &[u8]) -> Result<(), DirectoryError> {
    let failed = |source| DirectoryError::Write { path: path.to_path_buf(), source };
    disk.replace(path, content).map_err(failed)
}

#[cfg(test)]
mod tests;
