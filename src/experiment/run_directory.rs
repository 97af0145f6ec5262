//! The directory of one run: who may write into it, and how files get there.
//!
//! ```text
//! manifest.json            what, from what, on what, how far; rewritten when the run ends
//! scenario.effective.toml  the scenario with every default written out; runs to the same digests
//! events.jsonl             the journal, appended and flushed as things happen
//! rounds.csv bytes.csv clients.csv matrix.csv classes.csv participation.csv   tables derived from the journal
//! rounds.jsonl             rounds.csv as flat JSON objects
//! partition.csv            who holds how many samples of what; from scenario and data
//! slots.csv                one more where clients have tasks of their own
//! bias.csv                 one more where client models are compared before synchronisation
//! summary.json             the figures of the final table
//! wall.csv profile.jsonl   wall times; outside both digests
//! confusion.csv            which class is taken for which, with record.confusion; beside the journal
//! usage.json               what processes took, where somebody watched them (a study)
//! *.parquet                the tables once more, with record.parquet
//! tensorboard/             scalars for TensorBoard, with record.tensorboard
//! models/task-*.safetensors  the server's model after tasks, with record.models
//! histograms/*.hgrm        distributions of frame sizes and latencies
//! checkpoints/*.ckpt       from where a killed run goes on, newest last
//! run.lock                 held by the writing process; the system frees it with the process
//! ```
//!
//! A directory that another process writes, that holds a run of another scenario, or that holds
//! anything else is refused; `--force` takes the latter two. A run is recognised by a manifest
//! that can be read, not by its name: other programs write a `manifest.json` as well. Replacing
//! removes the files named above and nothing else, so a mistyped `--out` never costs anybody
//! their own files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::manifest::{Manifest, Status};

/// File names of a run directory.
pub mod names {
    /// What the run is.
    pub const MANIFEST: &str = "manifest.json";
    /// The scenario with every default.
    pub const SCENARIO: &str = "scenario.effective.toml";
    /// The journal.
    pub const EVENTS: &str = "events.jsonl";
    /// One row per round.
    pub const ROUNDS: &str = "rounds.csv";
    /// The same rows as flat JSON objects.
    pub const ROUNDS_JSON: &str = "rounds.jsonl";
    /// One row per round, client, direction, kind and outcome.
    pub const BYTES: &str = "bytes.csv";
    /// One row per client.
    pub const CLIENTS: &str = "clients.csv";
    /// One row per (task learnt, task tested).
    pub const MATRIX: &str = "matrix.csv";
    /// One row per (period, slot begun), where clients have tasks of their own.
    pub const SLOTS: &str = "slots.csv";
    /// One row per comparison, client and class, where client models are compared.
    pub const BIAS: &str = "bias.csv";
    /// One row per task learnt and class seen.
    pub const CLASSES: &str = "classes.csv";
    /// One row per task learnt, class and answer, where the scenario asks for it.
    pub const CONFUSION: &str = "confusion.csv";
    /// One row per round and client.
    pub const PARTICIPATION: &str = "participation.csv";
    /// One row per task, client and class that the client has samples of.
    pub const PARTITION: &str = "partition.csv";
    /// One row per round: how long it took.
    pub const WALL: &str = "wall.csv";
    /// Figures of the final table.
    pub const SUMMARY: &str = "summary.json";
    /// Wall times, outside the digests.
    pub const PROFILE: &str = "profile.jsonl";
    /// What the processes took that worked on it; written by whoever watched them.
    pub const USAGE: &str = "usage.json";
    /// Folder of distributions.
    pub const HISTOGRAMS: &str = "histograms";
    /// Folder of scalars for TensorBoard, where the scenario asks for them.
    pub const TENSORBOARD: &str = "tensorboard";
    /// Folder of the server's models after tasks, where the scenario asks for them.
    pub const MODELS: &str = "models";
    /// Folder of checkpoints.
    pub const CHECKPOINTS: &str = "checkpoints";
    pub const LOCK: &str = "run.lock";
}

/// What a run writes while it goes on, and at its end.
const RESULTS: &[&str] = &[
    names::EVENTS,
    names::ROUNDS,
    names::ROUNDS_JSON,
    names::CLASSES,
    names::PARTICIPATION,
    names::PARTITION,
    names::CONFUSION,
    names::WALL,
    names::BYTES,
    names::CLIENTS,
    names::MATRIX,
    names::SLOTS,
    names::BIAS,
    names::SUMMARY,
    names::PROFILE,
    names::USAGE,
];

/// How files end that a run writes into its folders, beside those of TensorBoard.
const FOLDED: [&str; 3] = [".hgrm", ".ckpt", ".safetensors"];

/// Why a run directory cannot be used.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// Another process holds the lock.
    #[error("{0} is being written by another fedcast process; wait for it or choose another --out")]
    InUse(PathBuf),
    /// It holds something else.
    #[error(
        "{path} holds a run of another scenario ({found}); choose another --out, or replace it with --force"
    )]
    OtherScenario {
        /// The directory.
        path: PathBuf,
        /// Name and hash of what is there.
        found: String,
    },
    /// It is not empty and not a run.
    #[error(
        "{0} is not empty and not a run of fedcast; choose another --out (--force replaces what has the name of a file of a run and leaves the rest alone)"
    )]
    NotARun(PathBuf),
    /// Tables of one run shall go where another one lies.
    #[error("{path} holds another run ({found}); choose another folder for the tables")]
    OtherRun {
        /// The directory.
        path: PathBuf,
        /// Name and hash of what is there.
        found: String,
    },
    /// Tables shall go where another program keeps its files.
    #[error(
        "{0} has a manifest.json that is not of a run of fedcast; choose another folder for the tables"
    )]
    ForeignManifest(PathBuf),
    /// No run there.
    #[error("{path} is not the directory of a run: {why}")]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The file system refused to show something.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system refused.
    #[error("cannot write {path}: {source}; the recording is incomplete")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A run directory held for writing.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    // Held, never read: dropping it frees the lock.
    _lock: File,
}

impl RunDirectory {
    /// Takes `path` for the run of the scenario with this hash and leaves it empty of earlier
    /// results. The same scenario may replace its own run; another one only with `force`.
    pub fn claim(path: &Path, hash: &str, force: bool) -> Result<RunDirectory, DirectoryError> {
        let write = |source| DirectoryError::Write { path: path.to_path_buf(), source };
        let existed = path.is_dir();
        fs::create_dir_all(path).map_err(write)?;
        let foreign = existed && has_entries(path)? && read_manifest(path).is_err();
        if foreign && !force {
            return Err(DirectoryError::NotARun(path.to_path_buf()));
        }
        let lock = take_lock(path)?;
        if !force
            && let Ok(there) = read_manifest(path)
            && there.scenario.hash != hash
        {
            let found = format!("{}, {}", there.scenario.name, there.scenario.hash);
            return Err(DirectoryError::OtherScenario { path: path.to_path_buf(), found });
        }
        let directory = RunDirectory { path: path.to_path_buf(), _lock: lock };
        // The manifest goes first: without it nothing looks like a whole run.
        directory.remove(&[names::MANIFEST, names::SCENARIO])?;
        directory.clear()?;
        Ok(directory)
    }

    /// Takes the directory of a run that goes on, and leaves everything in it.
    pub fn reopen(path: &Path) -> Result<RunDirectory, DirectoryError> {
        let lock = take_lock(path)?;
        Ok(RunDirectory { path: path.to_path_buf(), _lock: lock })
    }

    /// Removes what a run wrote, but for its scenario and manifest: a program killed meanwhile
    /// leaves a run that can still be resumed.
    pub(super) fn clear(&self) -> Result<(), DirectoryError> {
        self.remove(RESULTS)?;
        for table in RESULTS.iter().filter_map(|name| name.strip_suffix(".csv")) {
            self.remove(&[&format!("{table}.parquet")])?;
        }
        let folders = [names::HISTOGRAMS, names::CHECKPOINTS, names::TENSORBOARD, names::MODELS];
        folders.iter().try_for_each(|name| self.remove_folder(name))
    }

    /// Removes what a run wrote into one of its folders, and the folder unless somebody else put something there.
    fn remove_folder(&self, name: &str) -> Result<(), DirectoryError> {
        let folder = self.path.join(name);
        if !folder.is_dir() {
            return Ok(());
        }
        let failed = |source| DirectoryError::Write { path: folder.clone(), source };
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let file = entry.file_name().to_string_lossy().into_owned();
            let file = file.trim_end_matches(".part");
            let ours =
                FOLDED.iter().any(|ending| file.ends_with(ending)) || file.contains(".tfevents.");
            if ours {
                fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        match fs::remove_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// Removes the run: every file that a run writes, nothing else, and the folder where it is empty then. Whether
    /// it is.
    pub fn delete(self) -> Result<bool, DirectoryError> {
        // The manifest goes first: what is killed halfway leaves nothing that looks like a run.
        self.remove(&[names::MANIFEST, names::SCENARIO])?;
        self.clear()?;
        self.remove(&[names::LOCK])?;
        let path = self.path.clone();
        // A lock on a removed file keeps nobody out, but some systems do not remove what is open.
        drop(self);
        Ok(fs::remove_dir(&path).is_ok())
    }

    fn remove(&self, names: &[&str]) -> Result<(), DirectoryError> {
        for name in names {
            let file = self.path.join(name);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(DirectoryError::Write { path: file, source: error });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file that grows while the run goes on.
    pub fn append(&self, name: &str) -> Result<File, DirectoryError> {
        let path = self.path.join(name);
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(|source| DirectoryError::Write { path, source })
    }

    /// Writes a whole file so that a reader sees the old content or the new, never a half.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), DirectoryError> {
        write_atomically(&self.path.join(name), content)
    }

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
    let lock = take_lock(path)?;
    if !path.join(names::MANIFEST).exists() {
        return Ok(Some(lock));
    }
    match read_manifest(path) {
        Ok(there) if there == *of => Ok(Some(lock)),
        Ok(there) => Err(DirectoryError::OtherRun {
            path: path.to_path_buf(),
            found: format!("{}, {}", there.scenario.name, there.scenario.hash),
        }),
        Err(_) => Err(DirectoryError::ForeignManifest(path.to_path_buf())),
    }
}

/// Whether some process writes into the run at `path` now. Looks without taking anything away.
pub fn is_held(path: &Path) -> bool {
    // Opened to be read: a run that may not be written to can still be looked at.
    let Ok(lock) = File::open(path.join(names::LOCK)) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Whether a run whose manifest says `running` was killed: nobody writes into it any more.
pub fn was_killed(path: &Path, manifest: &Manifest) -> bool {
    manifest.status == Status::Running && !is_held(path)
}

fn take_lock(path: &Path) -> Result<File, DirectoryError> {
    let lock_path = path.join(names::LOCK);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path)
        .map_err(|source| DirectoryError::Write { path: lock_path.clone(), source })?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(DirectoryError::InUse(path.to_path_buf())),
        Err(TryLockError::Error(source)) => Err(DirectoryError::Write { path: lock_path, source }),
    }
}

/// Reads the manifest of the run at `path`.
pub fn read_manifest(path: &Path) -> Result<Manifest, DirectoryError> {
    let unreadable = |why: String| DirectoryError::Unreadable { path: path.to_path_buf(), why };
    let text = fs::read_to_string(path.join(names::MANIFEST))
        .map_err(|error| unreadable(format!("manifest.json: {error}")))?;
    serde_json::from_str(&text).map_err(|error| unreadable(format!("manifest.json: {error}")))
}

fn has_entries(path: &Path) -> Result<bool, DirectoryError> {
    let write = |source| DirectoryError::Write { path: path.to_path_buf(), source };
    Ok(fs::read_dir(path).map_err(write)?.flatten().any(|entry| entry.file_name() != names::LOCK))
}

/// Writes beside the target, flushes to the device, renames.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<(), DirectoryError> {
    let fail = |source| DirectoryError::Write { path: path.to_path_buf(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(fail)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".part");
    let beside = path.with_file_name(name);
    let mut file = File::create(&beside).map_err(fail)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if let Err(error) = written.and_then(|()| fs::rename(&beside, path)) {
        let _ = fs::remove_file(&beside);
        return Err(fail(error));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_in_use_is_refused_and_free_again_when_dropped() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let held = RunDirectory::claim(&path, "1", false).unwrap();
        assert!(is_held(&path) && !is_held(root.path()));
        assert!(matches!(
            RunDirectory::claim(&path, "1", true),
            Err(DirectoryError::InUse(p)) if p == path
        ));
        drop(held);
        assert!(!is_held(&path));
        RunDirectory::claim(&path, "1", false).unwrap();
    }

    #[test]
    fn a_run_that_begins_anew_can_be_resumed_at_any_moment() {
        let root = tempfile::tempdir().unwrap();
        let held = RunDirectory::claim(root.path(), "1", false).unwrap();
        for name in [names::MANIFEST, names::SCENARIO, names::EVENTS, names::SUMMARY] {
            held.write(name, b"a").unwrap();
        }
        held.clear().unwrap();
        let there = |name: &&str| root.path().join(name).exists();
        let all = [names::MANIFEST, names::SCENARIO, names::EVENTS, names::SUMMARY];
        let left: Vec<_> = all.iter().filter(|name| there(name)).collect();
        assert_eq!(left, [&names::MANIFEST, &names::SCENARIO]);
    }

    #[test]
    fn foreign_files_are_never_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("thesis.tex"), "years of work").unwrap();
        assert!(matches!(
            RunDirectory::claim(root.path(), "1", false),
            Err(DirectoryError::NotARun(_))
        ));
        fs::write(root.path().join(names::EVENTS), "old").unwrap();
        RunDirectory::claim(root.path(), "1", true).unwrap();
        assert!(root.path().join("thesis.tex").exists());
        assert!(!root.path().join(names::EVENTS).exists());
    }

    #[test]
    fn deleting_takes_what_a_run_wrote_and_leaves_foreign_files() {
        let root = tempfile::tempdir().unwrap();
        let (full, shared) = (root.path().join("full"), root.path().join("shared"));
        for path in [&full, &shared] {
            let held = RunDirectory::claim(path, "1", false).unwrap();
            for name in RESULTS.iter().chain(&[names::MANIFEST, names::SCENARIO]) {
                held.write(name, b"a").unwrap();
            }
            held.write("histograms/a.hgrm", b"a").unwrap();
            held.write("checkpoints/1.ckpt", b"a").unwrap();
            held.write("tensorboard/events.out.tfevents.0.a", b"a").unwrap();
            held.write("models/task-01.safetensors.part", b"a").unwrap();
        }
        fs::write(shared.join("notes.md"), "mine").unwrap();
        fs::write(shared.join("checkpoints/mine.txt"), "mine").unwrap();
        assert!(RunDirectory::reopen(&full).unwrap().delete().unwrap());
        assert!(!RunDirectory::reopen(&shared).unwrap().delete().unwrap());
        assert!(!full.exists());
        let left = |path: &Path| {
            let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(left(&shared), ["checkpoints".into(), "notes.md".into()].into());
        assert_eq!(left(&shared.join("checkpoints")), ["mine.txt".into()].into());
    }

    #[test]
    fn a_manifest_of_another_program_makes_no_run() {
        let root = tempfile::tempdir().unwrap();
        let site = [(names::MANIFEST, "{\"short_name\": \"App\"}"), (names::SUMMARY, "[]")];
        for (name, text) in site {
            fs::write(root.path().join(name), text).unwrap();
        }
        assert!(matches!(
            RunDirectory::claim(root.path(), "1", false),
            Err(DirectoryError::NotARun(_))
        ));
        for (name, text) in site {
            assert_eq!(fs::read_to_string(root.path().join(name)).unwrap(), text);
        }
        RunDirectory::claim(root.path(), "1", true).unwrap();
        assert!(!root.path().join(names::SUMMARY).exists());
    }

    #[test]
    fn a_file_is_replaced_whole_and_no_half_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("deep/summary.json");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
