//! Promise: a process that dies in the middle of any of its file operations leaves a directory that can be taken up,
//! and the run that is taken up there ends as if nothing had happened.
//!
//! Nothing is killed: the run writes through a [`Disk`] whose operations stop at the n-th, which comes half through.

use std::collections::BTreeMap;
use std::path::Path;

use fedcast::experiment::{
    ExperimentError, Resumed, Run, RunDirectory, RunOptions, Standing, names, resume_on, standing,
};
use fedcast::federation::{EndReason, EventSink, Interrupt};
use fedcast::files::Disk;
use fedcast::methods::Registry;
use fedcast::report::tables::TableFiles;
use fedcast::report::{Shared, Summary};
use fedcast::scenario::Scenario;

const TEXT: &str = r#"
schema = 1
data = { source = "digits", subset = 4 }
tasks = { sizes = [5, 5] }
partition = { kind = "iid" }
backbone = { kind = "pixels" }
method = { name = "fedavg" }
federation = { clients = 2, rounds = 2 }
client = { epochs = 1, batch = 16 }
record = { checkpoint = { every = "round", share = 1.0, keep = 1 }, histograms = false }
"#;

fn scenario() -> Scenario {
    let loaded = Scenario::from_toml(TEXT, "crash", Path::new("."), &[], &Registry::builtin());
    loaded.unwrap().scenario
}

/// Computes a run with the readers that the program gives it, and writes its summary.
fn execute(run: Run) -> Result<(), ExperimentError> {
    let directory = run.directory();
    let summary = Shared::new(Summary::new("crash"));
    let tables = TableFiles::create_on(directory.disk(), directory.path(), &scenario().record)?;
    let readers: Vec<Box<dyn EventSink>> = vec![Box::new(tables), Box::new(summary.clone())];
    let (finished, _) =
        run.execute(readers, Box::new(()), Interrupt::default(), |directory, _| {
            directory.write(names::SUMMARY, summary.lock().to_json().as_bytes())
        })?;
    assert_eq!(finished.reason, EndReason::Done);
    Ok(())
}

fn begin(disk: &Disk, path: &Path, force: bool) -> Result<(), ExperimentError> {
    let out = Some(path.to_path_buf());
    let options = RunOptions { workers: Some(1), out, force, ..RunOptions::default() };
    execute(Run::prepare_on(disk, &scenario(), &Registry::builtin(), &options)?)
}

fn go_on(disk: &Disk, path: &Path) -> Result<(), ExperimentError> {
    let Resumed { run, .. } = resume_on(disk, path, &Registry::builtin(), Some(1), false)?;
    execute(run)
}

/// What `fedcast run --resume` does.
fn take_up(disk: &Disk, path: &Path) -> Result<(), ExperimentError> {
    match standing(path, &scenario().hash())? {
        Standing::Free => begin(disk, path, false),
        Standing::Unfinished(_) => go_on(disk, path),
        // Nothing but what a process left that wanted to replace it.
        Standing::Done => Ok(RunDirectory::reopen(path).map(drop)?),
        other => panic!("a directory nobody can take: {other:?}"),
    }
}

/// Every file of a run, but for what is of the process and not of the run.
fn content(path: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files
        .map(|file| {
            let name = file.file_name().into_string().unwrap();
            let mut text = std::fs::read_to_string(file.path()).unwrap();
            if name == names::MANIFEST {
                let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
                for of_process in ["resumed", "started", "ended", "wall_s", "peak_memory_mb"] {
                    manifest.as_object_mut().unwrap().remove(of_process);
                }
                text = manifest.to_string();
            }
            (name, text)
        })
        .collect()
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
    let root = tempfile::tempdir().unwrap();
    begin(&Disk::default(), &root.path().join("whole"), false).unwrap();
    let whole = content(&root.path().join("whole"));
    let path = root.path().join("run");
    for count in 0.. {
        let _ = std::fs::remove_dir_all(&path);
        let done = begin(&Disk::dying_after(count), &path, false).is_ok();
        // The next process dies as well, a little further.
        let again = take_up(&Disk::dying_after(count / 2 + 3), &path);
        assert!(!done || again.is_ok());
        take_up(&Disk::default(), &path).unwrap();
        same(&path, &whole, &format!("operation {count}"));
        if done {
            assert!(count > 60, "only {count} operations were seen");
            break;
        }
    }
}

#[test]
fn so_does_one_that_replaces_another() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    begin(&Disk::default(), &path, false).unwrap();
    let whole = content(&path);
    // Beyond these, its files are those of a run in a fresh directory.
    for count in 0..30 {
        let _ = begin(&Disk::dying_after(count), &path, true);
        take_up(&Disk::default(), &path).unwrap();
        same(&path, &whole, &format!("operation {count}"));
    }
}
