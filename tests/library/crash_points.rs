//! Promise: a process that dies in the middle of any of its file operations leaves a directory that can be taken up,
//! and the run that is taken up there ends as if nothing had happened.
//!
//! Nothing is killed: the run writes through a [`Disk`] whose operations stop at the n-th, which comes half through.

use std::collections::BTreeMap;
use std::path::Path;

use fedcast::experiment::{
    DirectoryState, ResumeError, ResumeOptions, Resumed, Run, RunDirectory, RunError, RunOptions,
    inspect_directory, names, resume_on,
};
use fedcast::federation::{EndReason, Interrupt};
use fedcast::files::Disk;
use fedcast::methods::Registry;
use fedcast::report;
use fedcast::scenario::Scenario;

/// Scenario shared by all runs.
const HEAD: &str = r#"
schema = 2
data = { source = "digits", subset = 4 }
tasks = { sizes = [5, 5] }
partition = { kind = "iid" }
backbone = { kind = "pixels" }
"#;

const PLAIN: &str = r#"
method = { name = "fedavg" }
federation = { clients = 2, rounds = 2 }
client = { epochs = 1, batch_size = 16 }
record = { checkpoint = { every = "round", max_time_fraction = 1.0, keep = 1 }, histograms = false }
"#;

/// Every file that a run can have, and rows that only an earlier process knew.
const EVERY_FILE: &str = r#"
method = { name = "fedavg", train = "head" }
federation = { clients = 2, rounds = 1 }
client = { epochs = 1, batch_size = 16 }

[record]
confusion = true
predictions = true
parquet = true
tensorboard = true
models = "tasks"
checkpoint = { every = "round", max_time_fraction = 1.0, keep = 1 }
"#;

/// Clients that keep a state, and a server that is lost in the middle of rounds.
const STATES: &str = r#"
method = { name = "scaffold" }
federation = { clients = 3, rounds = 2 }
participation = { kind = "count", count = 2 }
client = { epochs = 1, batch_size = 16, optimizer = { kind = "sgd", lr = 0.3 } }
record = { checkpoint = { every = "round", max_time_fraction = 1.0, keep = 2 }, histograms = false }

[[faults]]
kind = "server-restart"
rate = 0.5
"#;

/// A run of the test's own: a scenario that is begun, taken up and compared.
struct Setting {
    scenario: Scenario,
}

impl Setting {
    fn of(text: &str) -> Setting {
        let text = [HEAD, text].concat();
        let loaded = Scenario::from_toml(&text, "crash", Path::new("."), &[], &Registry::builtin());
        Setting { scenario: loaded.unwrap().scenario }
    }

    /// Computes a run with all outputs of the program; the first `recorded` entries are recorded already.
    fn execute(&self, run: Run, recorded: u64) -> Result<(), RunError> {
        let ended =
            report::execute(run, &self.scenario, recorded, Vec::new(), Interrupt::default())?;
        assert_eq!(ended.finished.reason, EndReason::Done);
        Ok(())
    }

    fn begin(&self, disk: &Disk, path: &Path, force: bool) -> Result<(), RunError> {
        let out = Some(path.to_path_buf());
        let options = RunOptions { workers: Some(1), out, force, ..RunOptions::default() };
        let run = Run::prepare_on(disk, &self.scenario, &Registry::builtin(), &options)?;
        self.execute(run, 0)
    }

    fn go_on(&self, disk: &Disk, path: &Path) -> Result<(), ResumeError> {
        let options = ResumeOptions { resources: Some(1).into(), ..ResumeOptions::default() };
        let Resumed { run, replayed, .. } = resume_on(disk, path, &Registry::builtin(), options)?;
        Ok(self.execute(run, replayed)?)
    }

    /// Resumes as `fedcast run --resume` does.
    fn take_up(&self, disk: &Disk, path: &Path) -> Result<(), ResumeError> {
        match inspect_directory(path, &self.scenario.hash())? {
            DirectoryState::Free => Ok(self.begin(disk, path, false)?),
            DirectoryState::Unfinished(_) => self.go_on(disk, path),
            // Nothing but what a process left that wanted to replace it.
            DirectoryState::Done => Ok(RunDirectory::reopen(path).map(drop)?),
            other => panic!("a directory nobody can take: {other:?}"),
        }
    }

    /// Dies in every `step`-th operation of a run, and a little further again, and is taken up.
    fn dies_anywhere(&self, step: usize, at_least: u64) {
        let root = tempfile::tempdir().unwrap();
        self.begin(&Disk::default(), &root.path().join("whole"), false).unwrap();
        let whole = content(&root.path().join("whole"));
        let path = root.path().join("run");
        for count in (0..).step_by(step) {
            let _ = std::fs::remove_dir_all(&path);
            let done = self.begin(&Disk::dying_after(count), &path, false).is_ok();
            let again = self.take_up(&Disk::dying_after(count / 2 + 3), &path);
            assert!(!done || again.is_ok());
            self.take_up(&Disk::default(), &path).unwrap();
            same(&path, &whole, &format!("operation {count}"));
            if done {
                assert!(count > at_least, "only {count} operations were seen");
                break;
            }
        }
    }
}

/// Every how manyth operation is tried: with `FEDCAST_CRASH_POINTS=every`, each.
fn step(usual: usize) -> usize {
    match std::env::var("FEDCAST_CRASH_POINTS") {
        Ok(asked) if asked == "every" => 1,
        _ => usual,
    }
}

/// Every file of a run, without what is of the process and not of the run.
fn content(path: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path();
            if file.is_dir() {
                folders.push(file);
                continue;
            }
            let name = file.strip_prefix(path).unwrap().to_str().unwrap().replace('\\', "/");
            if let Some(content) = of_the_run(&name, &std::fs::read(&file).unwrap()) {
                found.insert(name, content);
            }
        }
    }
    found
}

/// Returns the part of a file that is equal in all processes, without wall times and intermediate states.
fn of_the_run(name: &str, bytes: &[u8]) -> Option<String> {
    let text = || String::from_utf8(bytes.to_vec()).unwrap();
    let without = |keys: &[&str]| {
        let mut json: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        keys.iter().for_each(|key| drop(json.as_object_mut().unwrap().remove(*key)));
        json.to_string()
    };
    Some(match name {
        names::MANIFEST => without(&["resumed", "started", "ended", "wall_s", "peak_memory_mb"]),
        names::SUMMARY => without(&["wall"]),
        // Which rounds it has.
        names::WALL => text().lines().filter_map(|row| row.split(',').next()).collect(),
        names::PROFILE | "wall.parquet" => return None,
        _ if name.starts_with(names::CHECKPOINTS) || name.contains("/wall-") => return None,
        _ => format!("{} bytes, {}", bytes.len(), blake3::hash(bytes)),
    })
}

#[track_caller]
fn same(found: &Path, whole: &BTreeMap<String, String>, place: &str) {
    let found = content(found);
    assert_eq!(found.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>(), "{place}");
    for (name, text) in &found {
        assert!(*text == whole[name], "{place}: {name}");
    }
}

#[test]
fn a_run_that_dies_in_any_of_its_operations_is_taken_up_and_ends_the_same() {
    Setting::of(PLAIN).dies_anywhere(1, 60);
}

#[test]
fn so_does_one_that_writes_every_file_there_is() {
    Setting::of(EVERY_FILE).dies_anywhere(step(11), 150);
}

#[test]
fn so_does_one_whose_clients_and_server_keep_states() {
    Setting::of(STATES).dies_anywhere(step(7), 60);
}

#[test]
fn so_does_one_that_replaces_another() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    let setting = Setting::of(PLAIN);
    setting.begin(&Disk::default(), &path, false).unwrap();
    let whole = content(&path);
    // Beyond these, its files are those of a run in a fresh directory.
    for count in 0..30 {
        let _ = setting.begin(&Disk::dying_after(count), &path, true);
        setting.take_up(&Disk::default(), &path).unwrap();
        same(&path, &whole, &format!("operation {count}"));
    }
}
