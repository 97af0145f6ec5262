//! Promise: `fedcast runs` lists all runs, distinguishes killed from running ones, and removes only files of runs.

use std::fs;
use std::path::Path;

use fedcast::experiment::RunDirectory;
use serde_json::Value;

use crate::arms::{HEAD, STSA, figure, run};
use crate::command::{CommandOutput, fedcast, read, run_fedcast, tiny};

fn runs(folder: &Path, arguments: &[&str]) -> CommandOutput {
    run_fedcast(folder, &[&["runs"], arguments].concat())
}

fn list(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = runs(folder, &[&["ls"], arguments, &["--format", "json"]].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    rows(&output)
}

/// The runs in a list.
fn rows(output: &CommandOutput) -> Vec<Value> {
    let document: Value = serde_json::from_str(&output.out).unwrap();
    document["runs"].as_array().unwrap().clone()
}

fn words(rows: &[Value], key: &str) -> Vec<String> {
    rows.iter().map(|row| row[key].as_str().unwrap().to_owned()).collect()
}

#[test]
fn runs_are_listed_with_what_their_files_say() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run(at, "runs/b", HEAD, 2, &[]);
    run(at, "runs/deep/a", STSA, 1, &[]);
    fs::create_dir(at.join("runs/site")).unwrap();
    fs::write(at.join("runs/site/manifest.json"), "{\"short_name\": \"App\"}").unwrap();
    let rows = list(at, &[]);
    assert_eq!(words(&rows, "path"), ["runs/b", "runs/deep/a"]);
    assert_eq!(words(&rows, "status"), ["done", "done"]);
    let one = &rows[0];
    assert_eq!((one["method"].as_str(), one["seed"].as_u64()), (Some("fedavg"), Some(2)));
    let of = |pointer: &str| figure(&at.join("runs/b"), pointer);
    assert_eq!(one["faa"].as_f64(), Some(of("/accuracy/faa")));
    assert_eq!(one["bytes_up"].as_f64(), Some(of("/bytes/up/delivered/bytes")));
    assert_eq!(one["bytes_down"].as_f64(), Some(of("/bytes/down/delivered/bytes")));
    assert_eq!(one["rounds"].as_f64(), Some(of("/rounds")));
    let journal = fs::metadata(at.join("runs/b/events.jsonl")).unwrap().len();
    assert!(one["size_bytes"].as_u64().unwrap() > journal);

    let best = list(at, &["--sort", "faa"]);
    let faa: Vec<f64> = best.iter().map(|row| row["faa"].as_f64().unwrap()).collect();
    assert!(faa[0] >= faa[1], "{faa:?}");
    assert_eq!(words(&list(at, &["--method", "stsa"]), "path"), ["runs/deep/a"]);
    assert_eq!(list(at, &["--status", "failed"]).len(), 0);
    assert_eq!(words(&list(at, &["runs/deep"]), "path"), ["runs/deep/a"]);

    let output = runs(at, &["ls"]);
    assert!(
        output.out.contains("deep/a") && output.out.contains("2 runs in runs"),
        "{}",
        output.out
    );
    let wrong = runs(at, &["ls", "--status", "dead"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("running, killed, done"), "{}", wrong.err);
    let show = runs(at, &["show", "runs/b"]);
    assert!(show.out.contains("fedcast replay runs/b --verify"), "{}", show.out);
}

#[test]
fn runs_of_another_format_are_left_out_with_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run(at, "runs/new", HEAD, 1, &[]);
    run(at, "runs/old", HEAD, 2, &[]);
    let manifest = at.join("runs/old/manifest.json");
    let old = read(&manifest).replace("\"format\": 2", "\"format\": 1");
    fs::write(&manifest, old).unwrap();
    let output = runs(at, &["ls", "--format", "json"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let rows = rows(&output);
    assert_eq!(words(&rows, "path"), ["runs/new"]);
    let line = "left out: runs/old: run directory of format 1, expected format 2";
    assert!(output.err.contains(line), "{}", output.err);

    run(at, "runs/newer", HEAD, 3, &[]);
    let output = run_fedcast(at, &["report", "runs", "-o", "page.html"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.err.contains(line), "{}", output.err);
    let page = read(at.join("page.html"));
    assert!(page.contains("runs/old: run directory of format 1") && !page.contains("help: "));
    let output = run_fedcast(at, &["compare", "runs", "runs/new"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.err.contains(line), "{}", output.err);
    let output = run_fedcast(at, &["compare", "runs/old", "runs/new"]);
    assert_eq!(output.code, 2, "no other run in the folder: {}", output.err);
    assert!(output.err.contains("run the scenario again"), "{}", output.err);

    let output = runs(at, &["rm", "runs/old"]);
    assert!(
        output.err.contains("runs/old  run directory of format 1, written by"),
        "{}",
        output.err
    );
    assert_eq!(runs(at, &["rm", "runs/old", "--yes"]).code, 0);
    assert!(!at.join("runs/old").exists());
}

#[test]
fn a_killed_run_is_distinguished_from_a_live_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run(at, "a", HEAD, 1, &[]);
    // As a kill leaves it: no summary, a manifest that was not rewritten.
    let manifest = at.join("a/manifest.json");
    let mut text: Value = serde_json::from_str(&read(&manifest)).unwrap();
    text["status"] = "running".into();
    text.as_object_mut().unwrap().remove("digests");
    fs::write(&manifest, text.to_string()).unwrap();
    fs::remove_file(at.join("a/summary.json")).unwrap();

    let rows = list(at, &["."]);
    assert_eq!(words(&rows, "status"), ["killed"]);
    assert_eq!(rows[0]["rounds"], 2, "of rounds.csv, where there is no summary");
    assert!(runs(at, &["show", "a"]).out.contains("fedcast resume a"));

    let held = RunDirectory::reopen(&at.join("a")).unwrap();
    assert_eq!(words(&list(at, &["."]), "status"), ["running"]);
    assert_eq!(words(&list(at, &[".", "--status", "running"]), "path"), ["./a"]);
    let output = runs(at, &["rm", "a", "--yes"]);
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("is being written"), "{}", output.err);
    assert!(manifest.exists() && at.join("a/events.jsonl").exists());
    drop(held);
    assert_eq!(runs(at, &["rm", "a", "--yes"]).code, 0);
    assert!(!at.join("a").exists());
}

#[test]
fn an_interrupted_run_has_no_final_accuracy() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run(at, "a", HEAD, 1, &[]);
    let whole = runs(at, &["show", "a"]).out;
    let accuracy = |text: &str| text.lines().any(|line| line.contains("figure      faa "));
    assert!(accuracy(&whole) && whole.contains("status      done\n"), "{whole}");
    // An interrupt writes a summary, too.
    let manifest = at.join("a/manifest.json");
    let interrupted =
        read(&manifest).replace("\"status\": \"done\"", "\"status\": \"interrupted\"");
    fs::write(&manifest, interrupted).unwrap();

    let rows = list(at, &["."]);
    assert_eq!(words(&rows, "status"), ["interrupted"]);
    assert_eq!((&rows[0]["faa"], rows[0]["rounds"].as_u64()), (&Value::Null, Some(2)));
    let text = runs(at, &["ls", "."]).out;
    let percent = format!("{:.2}", 100.0 * figure(&at.join("a"), "/accuracy/faa"));
    assert!(text.contains("interrupted") && !text.contains(&percent), "{text}");
    let show = runs(at, &["show", "a"]).out;
    assert!(show.contains("status      interrupted after round 2\n"), "{show}");
    assert!(!accuracy(&show) && show.contains("so far      faa "), "{show}");
}

#[test]
fn removing_asks_and_leaves_foreign_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run(at, "a", HEAD, 1, &[]);
    run(at, "b", HEAD, 2, &[]);
    fs::write(at.join("b/notes.md"), "mine").unwrap();
    let output = runs(at, &["rm", "a", "b"]);
    assert_eq!(output.code, 2, "nobody answers here");
    assert!(
        output.err.contains("--yes") && output.err.contains("fedavg, seed 1, done"),
        "{}",
        output.err
    );
    assert_eq!(list(at, &["."]).len(), 2);

    // Nothing goes where one of them is no run.
    assert_eq!(runs(at, &["rm", "a", "nowhere", "--yes"]).code, 2);
    assert_eq!(list(at, &["."]).len(), 2);

    // One is named twice, in two ways.
    let output = runs(at, &["rm", "a", "b", "./a", "b/", "--yes"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(
        output.out.contains("removed b; files that do not belong to a run are kept"),
        "{}",
        output.out
    );
    assert!(!at.join("a").exists());
    let left: Vec<_> =
        fs::read_dir(at.join("b")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.md"]);
    assert!(list(at, &["."]).is_empty());
}

#[cfg(unix)]
#[test]
fn running_runs_are_followed_until_they_end() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run(at, "runs/over", HEAD, 1, &[]);
    let output = runs(at, &["--follow"]);
    assert_eq!((output.code, output.out.as_str()), (0, "no run at or below runs is running\n"));

    let tiny = tiny();
    let long = ["--set", "federation.rounds=2000", "--set", HEAD];
    let words = [&["run", tiny.to_str().unwrap(), "-q", "-o", "runs/long"][..], &long].concat();
    let mut child = fedcast(at, &words).stderr(Stdio::null()).spawn().unwrap();
    // The directory is there a moment later.
    while !at.join("runs/long/rounds.csv").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run has ended");
        std::thread::yield_now();
    }
    let mut follower = fedcast(at, &["runs", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    let left = lines.find(|line| line.contains(" left")).unwrap();
    assert!(left.starts_with("long  round ") && left.contains(" of 4000, "), "{left}");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success() && child.wait().unwrap().code() == Some(130));
    let rest: Vec<String> = lines.collect();
    let last_two = &rest[rest.len() - 2..];
    assert!(last_two[0].starts_with("long  interrupted after round "), "{rest:?}");
    assert_eq!(last_two[1], "no run at or below runs is running");
    assert_eq!(follower.wait().unwrap().code(), Some(0));
}
