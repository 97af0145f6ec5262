//! Promise: `fedcast run --resume` begins a run, goes on with it, or says that it is done; nothing that stands in a run
//! directory is computed again or replaced without being asked for.

use std::fs;

use crate::command::{read, run_fedcast, tiny, tiny_run};

#[test]
fn one_command_begins_goes_on_and_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let first = tiny_run(folder, &["--resume"]);
    assert_eq!(first.code, 0, "{}", first.err);
    let (manifest, journal) = (folder.join("run/manifest.json"), folder.join("run/events.jsonl"));
    let (whole, events) = (read(&manifest), read(&journal));

    let done = tiny_run(folder, &["--resume"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("run is complete"), "{}", done.err);
    assert_eq!(done.out, "directory   run\n");
    let json = tiny_run(folder, &["--resume", "--format", "json"]);
    assert!(json.out.ends_with(&read(folder.join("run/summary.json"))[1..]), "{}", json.out);
    assert_eq!(read(&manifest), whole);

    // A kill: the manifest says running, and the journal breaks off.
    fs::write(&manifest, whole.replace("\"done\"", "\"running\"")).unwrap();
    fs::write(&journal, &events[..events.len() / 2]).unwrap();
    let plain = tiny_run(folder, &[]);
    assert_eq!(plain.code, 4, "{}", plain.err);
    assert!(
        ["not finished (killed)", "fedcast resume run", "--force"]
            .iter()
            .all(|part| plain.err.contains(part)),
        "{}",
        plain.err
    );
    assert_eq!(read(&journal), events[..events.len() / 2]);
    // Its scenario may be lost, too: the given one is the same.
    fs::remove_file(folder.join("run/scenario.effective.toml")).unwrap();
    let lost = run_fedcast(folder, &["resume", "run", "-q"]);
    assert_eq!(lost.code, 12, "{}", lost.err);
    assert!(lost.err.contains("run --resume"), "{}", lost.err);
    let on = tiny_run(folder, &["--resume"]);
    assert_eq!(on.code, 0, "{}", on.err);
    assert_eq!(read(&journal), events);

    let other = tiny_run(folder, &["--resume", "--seed", "2"]);
    assert_eq!(other.code, 2, "{}", other.err);
    let both = run_fedcast(folder, &["run", tiny().to_str().unwrap(), "--resume", "--force"]);
    assert_eq!(both.code, 2, "{}", both.err);
}

#[test]
fn a_directory_that_was_only_claimed_is_free() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("run")).unwrap();
    for name in ["manifest.json.part", "scenario.effective.toml.part", "run.lock"] {
        fs::write(folder.path().join("run").join(name), "{").unwrap();
    }
    let output = tiny_run(folder.path(), &[]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(!folder.path().join("run/manifest.json.part").exists());
}

#[test]
fn a_run_that_trained_nothing_says_so_again() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let output = tiny_run(folder.path(), &["--resume", "--set", "links.loss_rate=1.0"]);
        assert_eq!(output.code, 7, "{}", output.err);
    }
}
