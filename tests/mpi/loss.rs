//! Loss of ranks during a run.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use fedcast::experiment::is_held;

use crate::launched::{
    SMALL, alone, document, folder_with, kill, mpirun, ranks_in, reports_losses, run_command,
    wait_until,
};

/// Long enough to be killed in its middle.
fn long() -> String {
    SMALL.replace("rounds = 2", "rounds = 8").replace("subset = 12", "subset = 6")
}

/// A run of three ranks that has closed two rounds.
fn start_run(folder: &Path) -> Child {
    let mut command = mpirun(3, folder, &["run", "small.toml", "--mpi", "-q", "-o", "run"]);
    let child = command.stdout(Stdio::null()).spawn().expect("mpirun is needed for these tests");
    let journal = folder.join("run/events.jsonl");
    let closed =
        || fs::read_to_string(&journal).unwrap_or_default().matches("round_closed").count();
    wait_until("two rounds close", || closed() >= 2);
    child
}

/// Goes on with two ranks, and compares with a run that nothing happened to.
fn goes_on(folder: &Path) {
    wait_until("the job is over", || !is_held(&folder.join("run")) && ranks_in(folder).is_empty());
    // A launcher that ends the job with SIGTERM leaves rank 0 the time for a checkpoint.
    let status = document(folder.join("run/manifest.json"))["status"].clone();
    assert!(status == "running" || status == "interrupted", "{status}");
    let arguments = ["run", "small.toml", "--mpi", "--resume", "-q", "-o", "run"];
    let ended = run_command(&mut mpirun(2, folder, &arguments));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("resuming after round"), "{}", ended.err);
    same_as_alone(folder);
}

fn same_as_alone(folder: &Path) {
    assert_eq!(alone(folder, &["run", "small.toml", "-q", "-o", "alone"]).code, Some(0));
    let digests = |run: &str| document(folder.join(run).join("manifest.json"))["digests"].clone();
    assert_eq!(digests("run"), digests("alone"));
}

#[test]
fn what_was_killed_goes_on_with_fewer_ranks() {
    let folder = folder_with(&long());
    let mut job = start_run(folder.path());
    kill(job.id());
    job.wait().expect("ends");
    goes_on(folder.path());
}

#[test]
fn a_worker_that_dies_is_survived_or_ends_the_job() {
    let folder = folder_with(&long());
    let mut job = start_run(folder.path());
    let ranks = ranks_in(folder.path());
    let (_, worker) = *ranks.iter().find(|(rank, _)| *rank == 2).expect("three ranks");
    kill(worker);
    let code = job.wait().expect("ends").code();
    if !reports_losses() {
        assert_ne!(code, Some(0), "the launcher ends the job");
        return goes_on(folder.path());
    }
    let manifest = document(folder.path().join("run/manifest.json"));
    assert_eq!((code, &manifest["status"]), (Some(0), &"done".into()));
    assert_eq!(manifest["lost_ranks"][0]["rank"], 2);
    same_as_alone(folder.path());
}
