//! Checkpoints that are damaged or missing, disks that are full, directories that are not what they were.

use std::fs;
use std::path::{Path, PathBuf};

use super::{LOGISTIC, same_results};
use crate::command::{CommandOutput, read, run_fedcast};

/// A complete run `whole`, and a copy `run` of it that looks killed.
fn killed(folder: &Path) {
    fs::write(folder.join("a.toml"), LOGISTIC).unwrap();
    let whole = run_fedcast(folder, &["run", "a.toml", "-q", "-o", "whole"]);
    assert_eq!(whole.code, 0, "{}", whole.err);
    kill(folder);
}

/// Makes `run` a killed copy of `whole`, with half a line at its end.
fn kill(folder: &Path) {
    let (whole, run) = (folder.join("whole"), folder.join("run"));
    let _ = fs::remove_dir_all(&run);
    fs::create_dir_all(run.join("checkpoints")).unwrap();
    for name in ["manifest.json", "scenario.effective.toml", "events.jsonl"] {
        fs::copy(whole.join(name), run.join(name)).unwrap();
    }
    for file in checkpoints(&whole) {
        fs::copy(&file, run.join("checkpoints").join(file.file_name().unwrap())).unwrap();
    }
    let manifest = read(run.join("manifest.json")).replace("\"done\"", "\"running\"");
    fs::write(run.join("manifest.json"), manifest).unwrap();
    let journal = read(run.join("events.jsonl"));
    fs::write(run.join("events.jsonl"), &journal[..journal.len() - 400]).unwrap();
}

fn checkpoints(run: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(run.join("checkpoints")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

#[track_caller]
fn resumes(folder: &Path) -> CommandOutput {
    let output = run_fedcast(folder, &["resume", "run", "-q"]);
    assert_eq!(output.code, 0, "{}", output.err);
    same_results(&folder.join("whole"), &folder.join("run"));
    output
}

#[test]
fn a_damaged_checkpoint_falls_back_to_the_one_before_and_then_to_the_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    killed(folder);
    let spoil = |file: &Path| {
        let mut bytes = fs::read(file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        fs::write(file, bytes).unwrap();
    };
    let files = checkpoints(&folder.join("run"));
    assert_eq!(files.len(), 2, "as many as are kept");
    spoil(&files[1]);
    let output = resumes(folder);
    let newest = files[1].file_name().unwrap().to_str().unwrap();
    assert!(
        output.err.contains(&format!("checkpoint {newest} is damaged (its checksum is wrong)"))
    );
    assert!(output.err.contains("resuming after round"), "{}", output.err);

    kill(folder);
    files.iter().for_each(|file| spoil(file));
    let output = resumes(folder);
    assert!(
        output.err.contains("no intact checkpoint: the run starts from the beginning"),
        "{}",
        output.err
    );

    // A journal that lost what a checkpoint names is worth as little.
    kill(folder);
    let journal = folder.join("run/events.jsonl");
    fs::write(&journal, &read(&journal)[..900]).unwrap();
    let output = resumes(folder);
    assert!(output.err.contains("starts from the beginning"), "{}", output.err);
}

#[test]
fn what_a_run_was_made_of_must_be_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    killed(folder);
    let change = |name: &str, from: &str, to: &str| {
        kill(folder);
        let path = folder.join("run").join(name);
        let (before, after) = (read(&path), read(&path).replacen(from, to, 1));
        assert_ne!(before, after, "{from} is in {name}");
        fs::write(path, after).unwrap();
        run_fedcast(folder, &["resume", "run", "-q"])
    };
    let other = change("scenario.effective.toml", "\nrun = 1", "\nrun = 2");
    assert_eq!(other.code, 2, "{}", other.err);
    assert!(other.err.contains("is not the scenario of this run"), "{}", other.err);

    let version = format!("\"fedcast\": \"{}\"", env!("CARGO_PKG_VERSION"));
    let other = change("manifest.json", &version, "\"fedcast\": \"0.0.1\"");
    assert_eq!(other.code, 2, "{}", other.err);
    assert!(other.err.contains("started by fedcast 0.0.1"), "{}", other.err);
    assert_eq!(run_fedcast(folder, &["resume", "run", "-q", "--force"]).code, 0);

    let manifest: serde_json::Value =
        serde_json::from_str(&read(folder.join("whole/manifest.json"))).unwrap();
    let digest = manifest["data"]["digest"].as_str().unwrap();
    let other = change("manifest.json", digest, "0123456789abcdef");
    assert_eq!(other.code, 6, "{}", other.err);
    assert!(other.err.contains("has changed since the run began"), "{}", other.err);

    kill(folder);
    fs::write(folder.join("run/run.lock"), "").unwrap();
    let lock = fs::File::options().write(true).open(folder.join("run/run.lock")).unwrap();
    lock.lock().unwrap();
    let used = run_fedcast(folder, &["resume", "run", "-q"]);
    assert_eq!(used.code, 2, "{}", used.err);
    assert!(used.err.contains("being written by another"), "{}", used.err);

    let nothing = run_fedcast(folder, &["resume", "nowhere"]);
    assert_eq!(nothing.code, 2, "{}", nothing.err);
    assert!(!folder.join("nowhere").exists(), "nothing is made");
}

/// A limit on the size of files stands for a full disk.
#[cfg(unix)]
#[test]
fn a_run_that_filled_its_disk_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    killed(folder);
    fs::remove_dir_all(folder.join("run")).unwrap();
    let limited = format!(
        "trap '' XFSZ; ulimit -f 40; exec '{}' run a.toml -q -o run",
        env!("CARGO_BIN_EXE_fedcast")
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &limited])
        .current_dir(folder)
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(12), "{err}");
    let output = resumes(folder);
    assert!(output.err.contains("resuming after round"), "{}", output.err);
}

#[test]
fn a_folder_of_checkpoints_that_cannot_be_used_is_12_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.toml"), LOGISTIC).unwrap();
    fs::create_dir(folder.join("run")).unwrap();
    fs::write(folder.join("run/checkpoints"), "in the way").unwrap();
    let output = run_fedcast(folder, &["run", "a.toml", "-q", "-o", "run", "--force"]);
    assert_eq!(output.code, 12, "{}", output.err);
    assert!(output.err.contains("run/checkpoints"), "{}", output.err);
    let output = run_fedcast(folder, &["resume", "run", "-q"]);
    assert_eq!(output.code, 12, "{}", output.err);
    assert!(output.err.contains("run/checkpoints"), "{}", output.err);

    // A scenario that wants none needs no folder.
    let without = ["--set", "record.checkpoint.every=never", "-o", "run", "--force", "-q"];
    let output = run_fedcast(folder, &[&["run", "a.toml"][..], &without].concat());
    assert_eq!(output.code, 0, "{}", output.err);
}
