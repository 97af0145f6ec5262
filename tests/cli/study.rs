//! Studies: many runs from one file, killed and gone on with, in shards, with cells that fail.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::{CommandOutput, fedcast, read, run_fedcast};

mod check;

const BASE: &str = r#"schema = 2
data = { source = "digits", subset = 12 }
tasks = { sizes = [5, 5] }
partition = { kind = "iid", min_samples = 1 }
method = { name = "fedavg", train = "head" }
federation = { clients = 2, rounds = 2 }
client = { epochs = 1, batch_size = 16 }
backbone = { kind = "pixels" }
"#;

const STUDY: &str = r#"schema = 2
base = "base.toml"
replicates = 2

[axes]
clients = { key = "federation.clients", values = [2, 3] }

[axes.method]
fedavg = { client.epochs = 1 }
long = { client.epochs = 3 }

[compare]
baseline = { method = "fedavg" }
metrics = ["faa", "bytes_up", "rounds_to:0.2"]

[run]
jobs = 2
"#;

/// A folder with a study `a.study.toml` and its base.
fn folder(study: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("base.toml"), BASE).unwrap();
    fs::write(folder.path().join("a.study.toml"), study).unwrap();
    folder
}

fn study(folder: &Path, more: &[&str]) -> CommandOutput {
    run_fedcast(folder, &[&["study", "a.study.toml"], more].concat())
}

#[track_caller]
fn runs(folder: &Path, more: &[&str]) -> CommandOutput {
    let output = study(folder, more);
    assert_eq!(output.code, 0, "{}\n{}", output.out, output.err);
    output
}

/// A CSV file, without the columns that are of a machine.
fn rows(path: PathBuf) -> Vec<Vec<String>> {
    let mut reader = csv::Reader::from_path(&path).unwrap();
    let head = reader.headers().unwrap().clone();
    let kept = |at: &usize| !["wall_s", "peak_memory_mb"].contains(&&head[*at]);
    let of = |record: &csv::StringRecord| {
        (0..head.len()).filter(kept).map(|at| record[at].to_owned()).collect()
    };
    let rows = reader.records().map(|record| of(&record.unwrap()));
    std::iter::once(of(&head)).chain(rows).collect()
}

fn column(rows: &[Vec<String>], name: &str) -> Vec<String> {
    let at = rows[0].iter().position(|column| column == name).unwrap();
    rows[1..].iter().map(|row| row[at].clone()).collect()
}

const TABLES: [&str; 5] = ["rounds.csv", "table.csv", "table.md", "table.tex", "paired.csv"];

#[track_caller]
fn same_tables(one: &Path, other: &Path) {
    assert_eq!(rows(one.join("cells.csv")), rows(other.join("cells.csv")));
    for name in TABLES {
        assert_eq!(read(one.join(name)), read(other.join(name)), "{name}");
    }
}

#[test]
fn a_study_runs_and_neither_jobs_nor_order_nor_shards_change_its_tables() {
    let folder = folder(STUDY);
    let folder = folder.path();
    let output = runs(folder, &["-o", "whole", "--jobs", "2"]);
    assert!(output.err.contains("8 of 8 runs left, 2 at a time"), "{}", output.err);
    assert!(output.err.contains("[8/8] "), "{}", output.err);
    assert!(output.out.contains("8 done"), "{}", output.out);
    let cells = rows(folder.join("whole/cells.csv"));
    assert_eq!(column(&cells, "clients"), ["2", "2", "2", "2", "3", "3", "3", "3"]);
    assert_eq!(
        column(&cells, "method").join(","),
        "fedavg,fedavg,long,long,fedavg,fedavg,long,long"
    );
    assert_eq!(column(&cells, "seed_partition"), ["1", "2", "1", "2", "1", "2", "1", "2"]);
    assert_eq!(column(&cells, "path")[3], "clients=2,method=long/seed-2");
    let memory = column_of(folder.join("whole/cells.csv"), "peak_memory_mb");
    if cfg!(target_os = "linux") {
        assert!(memory.iter().all(|mb| mb.parse::<f64>().unwrap() > 1.0), "{memory:?}");
    }

    // Its columns are explained: those of axes, metrics and kinds by what they are.
    let output = run_fedcast(
        folder,
        &["columns", "cells", "table", "paired", "study/rounds.csv", "--format", "json"],
    );
    let files: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    for file in files["files"].as_array().unwrap() {
        let name = file["name"].as_str().unwrap().strip_prefix("study/").unwrap();
        let head = rows(folder.join("whole").join(name)).remove(0);
        let explained =
            file["columns"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap());
        let (open, fixed): (Vec<&str>, Vec<&str>) = explained.partition(|name| name.contains('<'));
        assert!(fixed.iter().all(|name| head.iter().any(|h| h == name)), "{name}: {head:?}");
        assert!(open.contains(&"<axis>"), "{name}: {open:?}");
    }

    // A cell is the run that `fedcast run` makes of it.
    let by_hand = run_fedcast(
        folder,
        &[
            "run",
            "base.toml",
            "-q",
            "-o",
            "hand",
            "--seed",
            "2",
            "--set",
            "client.epochs=3",
            "--format",
            "json",
        ],
    );
    let by_hand: serde_json::Value = serde_json::from_str(&by_hand.out).unwrap();
    assert_eq!(by_hand["digests"]["numbers"], column(&cells, "digest_numbers")[3].as_str());
    assert_eq!(by_hand["accuracy"]["faa"].to_string(), column(&cells, "faa")[3]);

    let again = runs(folder, &["-o", "whole"]);
    assert!(again.err.contains("none of 8 runs"), "{}", again.err);

    runs(folder, &["-o", "single", "--jobs", "1", "-q"]);
    same_tables(&folder.join("whole"), &folder.join("single"));

    runs(folder, &["-o", "first", "-q", "--shard", "1/2"]);
    runs(folder, &["-o", "second", "-q", "--shard", "2/2"]);
    let first = column(&rows(folder.join("first/cells.csv")), "status");
    assert_eq!(first.iter().filter(|status| *status == "done").count(), 4);
    copy(&folder.join("first"), &folder.join("second"));
    runs(folder, &["-o", "second", "--status"]);
    same_tables(&folder.join("whole"), &folder.join("second"));
}

fn column_of(path: PathBuf, name: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let at = reader.headers().unwrap().iter().position(|column| column == name).unwrap();
    reader.records().map(|record| record.unwrap()[at].to_owned()).collect()
}

/// As `cp -r from/. into`.
fn copy(from: &Path, into: &Path) {
    fs::create_dir_all(into).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let there = into.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &there),
            false => drop(fs::copy(entry.path(), there).unwrap()),
        }
    }
}

/// Processes whose parent is this one.
#[cfg(target_os = "linux")]
fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the name, which may hold anything: state, then the parent.
        let behind = stat.rsplit_once(')').map(|(_, behind)| behind.to_owned()).unwrap_or_default();
        if behind.split_whitespace().nth(1) == Some(&parent.to_string()) {
            found.push(id);
        }
    }
    found
}

#[cfg(target_os = "linux")]
fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(status.success(), "{name} {process}");
}

/// Waits until `done` or a minute is over.
#[cfg(target_os = "linux")]
#[track_caller]
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !done() {
        assert!(began.elapsed().as_secs() < 60, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Runs long enough to be killed in it.
#[cfg(target_os = "linux")]
fn longer() -> String {
    STUDY.replace("replicates = 2", "replicates = 1\nset = { federation.rounds = 200 }")
}

/// Study that runs at the same time as the test.
#[cfg(target_os = "linux")]
struct Parent(std::process::Child);

#[cfg(target_os = "linux")]
impl Drop for Parent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(target_os = "linux")]
fn begin(folder: &Path, more: &[&str]) -> Parent {
    let arguments = [&["study", "a.study.toml"], more].concat();
    let mut command = fedcast(folder, &arguments);
    Parent(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_study_that_was_killed_with_its_children_goes_on_to_the_same_tables() {
    let folder = folder(&longer());
    let folder = folder.path();
    let mut parent = begin(folder, &["-o", "killed", "--jobs", "2"]);
    // Somewhere in the middle: one cell is done, others are not.
    let err = BufReader::new(parent.0.stderr.take().unwrap());
    assert!(err.lines().map(Result::unwrap).any(|line| line.starts_with("[1/4] ")));
    wait_for("a run begins", || {
        children(parent.0.id()).iter().any(|child| {
            let line = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let out = line.split('\0').find(|argument| {
                argument.starts_with("killed/clients") && !argument.ends_with(".toml")
            });
            let is_there = out.is_some_and(|out| folder.join(out).join("events.jsonl").exists());
            // It is not to end before it is killed.
            is_there.then(|| signal("-STOP", *child)).is_some()
        })
    });
    let running = children(parent.0.id());
    signal("-KILL", parent.0.id());
    for child in running {
        signal("-KILL", child);
    }
    parent.0.wait().unwrap();

    let status = runs(folder, &["-o", "killed", "--status"]);
    assert!(status.out.contains("unfinished"), "{}", status.out);
    let output = runs(folder, &["-o", "killed"]);
    assert!(output.out.contains("4 done"), "{}", output.out);
    runs(folder, &["-o", "whole", "-q"]);
    same_tables(&folder.join("killed"), &folder.join("whole"));
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_the_children_too_and_a_parent_that_dies_leaves_none() {
    let folder = folder(&longer().replace("= 40", "= 1000"));
    let folder = folder.path();
    for (name, code) in [("-INT", Some(130)), ("-KILL", None)] {
        let mut parent = begin(folder, &["-o", "a", "--jobs", "2"]);
        let journal = folder.join("a/clients=2,method=fedavg/seed-1/events.jsonl");
        wait_for("runs begin", || children(parent.0.id()).len() == 2 && journal.exists());
        let running = children(parent.0.id());
        signal(name, parent.0.id());
        assert_eq!(parent.0.wait().unwrap().code(), code);
        let lives = |child: &u32| {
            let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        wait_for("children end", || !running.iter().any(lives));
        let manifest = read(folder.join("a/clients=2,method=fedavg/seed-1/manifest.json"));
        assert!(manifest.contains("\"interrupted\""), "{manifest}");
    }
}

#[test]
fn a_limit_of_wall_time_ends_a_study_resumable() {
    let text =
        STUDY.replace("replicates = 2", "replicates = 1\nset = { federation.rounds = 1000 }");
    let folder = folder(&text.replace("jobs = 2", "jobs = 1\nlimit = { wall = \"1s\" }"));
    let output = study(folder.path(), &["-o", "a"]);
    assert_eq!(output.code, 130, "{}", output.err);
    assert!(output.err.contains("stopped at the limit of wall time; continue with: fedcast study"));
    assert!(output.out.contains("waiting"), "{}", output.out);

    let folder = self::folder(&STUDY.replace("jobs = 2", "limit = { disk = \"1kB\" }"));
    let output = study(folder.path(), &["-o", "a"]);
    assert_eq!(output.code, 130, "{}", output.err);
    assert!(output.err.contains("stopped at the limit of disk"), "{}", output.err);
}

#[test]
fn a_task_of_a_slurm_array_runs_its_part() {
    let folder = folder(STUDY);
    let labels = |variables: &[(&str, &str)], more: &[&str]| {
        let arguments = [&["study", "a.study.toml", "--plan", "--format", "json"], more].concat();
        let mut command = fedcast(folder.path(), &arguments);
        for name in ["ID", "COUNT", "MIN", "STEP"] {
            command.env_remove(format!("SLURM_ARRAY_TASK_{name}"));
        }
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let cells = plan["cells"].as_array().unwrap().iter();
        cells
            .map(|cell| format!("{}/{}", cell["label"].as_str().unwrap(), cell["seed"]))
            .collect::<Vec<_>>()
    };
    let task = [
        ("SLURM_ARRAY_TASK_ID", "5"),
        ("SLURM_ARRAY_TASK_COUNT", "3"),
        ("SLURM_ARRAY_TASK_MIN", "4"),
    ];
    let part =
        ["clients=2, method=fedavg/2", "clients=3, method=fedavg/1", "clients=3, method=long/2"];
    assert_eq!(labels(&task, &["--shard", "env"]), part);
    assert_eq!(labels(&task, &["--shard", "2/3"]), part);
    assert_eq!(labels(&task, &[]).len(), 8, "only where somebody asks");
    fs::write(folder.path().join("a.study.toml"), format!("{STUDY}shard = \"env\"\n")).unwrap();
    assert_eq!(labels(&task, &[]), part);
    assert_eq!(labels(&[], &[]).len(), 8, "outside of an array all are run");
}

const FAILING: &str = r#"schema = 2
base = "base.toml"
set = { partition = { kind = "iid", min_samples = 3, attempts = 3 } }

[axes]
clients = { key = "federation.clients", values = [2, 60, 3] }
"#;

/// Every run lacks one file: its error is printed once, in place of a line per run.
#[test]
fn an_error_of_all_runs_is_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shape = "{ image = 8, patch = 4, channels = 1, dim = 12, depth = 1, heads = 3, mlp = 20 }";
    let base = format!(
        "schema = 2\ndata = {{ source = \"digits\", subset = 12 }}\ntasks = {{ sizes = [5, 5] }}\n\
         partition = {{ kind = \"iid\" }}\nmethod = {{ name = \"fedavg\" }}\n\
         federation = {{ clients = 2, rounds = 1 }}\n\
         backbone = {{ weights = \"hf:nobody/nothing\", architecture = {shape} }}\n"
    );
    fs::write(folder.join("base.toml"), base).unwrap();
    let text = "schema = 2\nbase = \"base.toml\"\nreplicates = 2\n\
                [axes.clients]\nkey = \"federation.clients\"\nvalues = [2, 3]\n";
    fs::write(folder.join("a.study.toml"), text).unwrap();
    let output = study(folder, &["-q"]);
    assert_eq!(output.code, 5, "{}", output.err);
    let line = "failed: clients=2, seed 1, and 3 more: hf:nobody/nothing has not been fetched";
    assert!(output.out.contains(line), "{}", output.out);
    assert_eq!(output.out.matches("help: fetch it").count(), 1, "{}", output.out);
    assert!(output.out.contains("4 failed"), "{}", output.out);
}

#[test]
fn a_cell_that_fails_is_5_and_reported_while_others_finish() {
    let folder = folder(FAILING);
    let folder = folder.path();
    let output = study(folder, &["-o", "a"]);
    assert_eq!(output.code, 5, "{}\n{}", output.out, output.err);
    assert!(output.err.contains("clients=60 seed 1 failed: "), "{}", output.err);
    assert!(output.out.contains("2 done, 1 failed"), "{}", output.out);
    let cells = rows(folder.join("a/cells.csv"));
    assert_eq!(column(&cells, "status"), ["done", "failed", "done"]);
    let errors = column(&cells, "error");
    assert!(errors[1].contains("60 clients"), "{errors:?}");
    assert!(errors[0].is_empty() && column(&cells, "faa")[1].is_empty());

    // Left alone until requested.
    let again = study(folder, &["-o", "a"]);
    assert_eq!(again.code, 5);
    assert!(again.err.contains("none of 3 runs"), "{}", again.err);
    let again = study(folder, &["-o", "a", "--only", "clients=2"]);
    assert_eq!(again.code, 0, "those that were asked for are done: {}", again.out);
    let again = study(folder, &["-o", "a", "--retry-failed"]);
    assert_eq!(again.code, 5);
    assert!(again.err.contains("1 of 3 runs left"), "{}", again.err);

    // What failed in the middle goes on: here its process was killed.
    let path = folder.join("a/clients=2/seed-1");
    let hash = column(&cells, "hash")[0].clone();
    let manifest = read(path.join("manifest.json")).replace("\"done\"", "\"running\"");
    fs::write(path.join("manifest.json"), manifest).unwrap();
    let failure = format!("{{\"hash\": \"{hash}\", \"exit\": null, \"error\": \"killed\"}}");
    fs::write(folder.join("a/clients=2/seed-1.failed.json"), failure).unwrap();
    let output = study(folder, &["-o", "a", "--status"]);
    assert!(output.out.contains("failed: clients=2, seed 1: killed"), "{}", output.out);
    study(folder, &["-o", "a", "--retry-failed", "-q"]);
    let after = rows(folder.join("a/cells.csv"));
    assert_eq!(column(&after, "status"), ["done", "failed", "done"]);
    assert_eq!(after[1], cells[1], "the same run");
}

#[test]
fn a_cell_that_trained_nothing_failed_and_restarts_on_retry() {
    let text = STUDY.replace("replicates = 2", "replicates = 1").replace("[2, 3]", "[2]").replace(
        "long = { client.epochs = 3 }",
        "long = { faults = [{ kind = \"crash\", rate = 1.0 }] }",
    );
    let folder = folder(&text);
    let folder = folder.path();
    let output = study(folder, &["-o", "a"]);
    assert_eq!(output.code, 5, "{}\n{}", output.out, output.err);
    let manifest = folder.join("a/clients=2,method=long/seed-1/manifest.json");
    assert!(read(manifest.clone()).contains("\"done\""), "the run itself came to its end");
    let failed = |output: &CommandOutput| {
        assert!(output.out.contains("seed 1: no update was ever aggregated"), "{}", output.out);
        let cells = rows(folder.join("a/cells.csv"));
        assert_eq!(column(&cells, "status"), ["done", "failed"]);
        assert_eq!(column(&cells, "faa")[1], "", "nobody trained it");
        assert!(column(&cells, "error")[1].starts_with("no update was ever"), "{cells:?}");
        assert_eq!(read(folder.join("a/paired.csv")).lines().count(), 1, "no pair");
    };
    failed(&output);
    // The page counts as the study does.
    let output = run_fedcast(folder, &["report", "a", "-o", "a.html"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let page = read(folder.join("a.html"));
    assert!(page.contains("Not done, left out of all means"), "counted");
    // Without the file next to it, too: its parent may have been killed before it wrote one.
    fs::remove_file(folder.join("a/clients=2,method=long/seed-1.failed.json")).unwrap();
    let output = study(folder, &["-o", "a"]);
    assert_eq!(output.code, 5, "{}", output.err);
    assert!(output.err.contains("none of 2 runs"), "{}", output.err);
    failed(&output);
    let before = fs::metadata(&manifest).unwrap().modified().unwrap();
    let output = study(folder, &["-o", "a", "--retry-failed"]);
    assert_eq!(output.code, 5, "{}", output.err);
    assert!(output.err.contains("1 of 2 runs left"), "{}", output.err);
    assert!(fs::metadata(&manifest).unwrap().modified().unwrap() > before, "it ran once more");
    failed(&output);
}

#[test]
fn the_directory_of_a_run_is_refused_before_anything_is_written() {
    let folder = folder(STUDY);
    let folder = folder.path();
    assert_eq!(run_fedcast(folder, &["run", "base.toml", "-q", "-o", "run"]).code, 0);
    let before = read(folder.join("run/rounds.csv"));
    for more in [&[][..], &["--status"]] {
        let output = study(folder, &[&["-o", "run"], more].concat());
        assert_eq!(output.code, 2, "{}", output.err);
        assert!(output.err.contains("is a run directory"), "{}", output.err);
    }
    assert_eq!(read(folder.join("run/rounds.csv")), before);
    assert!(!folder.join("run/cells.csv").exists() && !folder.join("run/study.lock").exists());
}

#[test]
fn on_error_stop_begins_no_more() {
    let text = FAILING.replace("[2, 60, 3]", "[60, 2, 3]");
    let text = text + "[run]\non_error = \"stop\"\norder = \"as-written\"\njobs = 1\n";
    let folder = folder(&text);
    let output = study(folder.path(), &["-o", "a"]);
    assert_eq!(output.code, 5, "{}", output.err);
    assert!(output.err.contains("stopped at the first failure"), "{}", output.err);
    let again = "continue with: fedcast study a.study.toml -o a --retry-failed\n";
    assert!(output.err.contains(again), "{}", output.err);
    let cells = rows(folder.path().join("a/cells.csv"));
    assert_eq!(column(&cells, "status"), ["failed", "waiting", "waiting"]);
}

#[test]
fn a_plan_and_a_status_run_nothing_and_a_changed_study_is_refused() {
    let text = STUDY.replace("[compare]", "[[exclude]]\nclients = 3\nmethod = \"long\"\n\n[[extra]]\nlabel = \"all & more\"\nset = { federation.clients = 4 }\n\n[compare]");
    let folder = folder(&text);
    let folder = folder.path();
    let output = runs(folder, &["--plan"]);
    assert!(output.out.contains("unknown until a cell has run"), "{}", output.out);
    assert!(!folder.join("studies").exists(), "nothing is written");
    let output = runs(folder, &["--plan", "--format", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(plan["cells"].as_array().unwrap().len(), 8, "2 x 2 - 1 + 1, twice");
    assert_eq!(plan["cells"][7]["label"], "all & more");
    let planned = plan["cells"][6]["total"]["up"].clone();

    let output = runs(folder, &["-q", "--only", "label=all & more,seed=1", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(document["runs"]["done"], 1);
    assert_eq!(document["cells"][0]["metrics"]["bytes_up"].as_f64(), planned.as_f64());
    assert!(folder.join("studies/a/all---more/seed-1/manifest.json").exists());
    let output = runs(folder, &["--plan"]);
    assert!(output.out.contains("estimated from finished cells"), "{}", output.out);

    fs::write(folder.join("a.study.toml"), text.replace("clients = 4", "clients = 5")).unwrap();
    let output = study(folder, &["-q"]);
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("holds a run of another scenario"), "{}", output.err);
    assert!(output.err.contains("choose another -o, or remove that folder"), "{}", output.err);
}

#[test]
fn a_cell_that_another_process_holds_is_left_alone() {
    let folder = folder(STUDY);
    let folder = folder.path();
    let lock = folder.join("a/clients=2,method=fedavg/seed-1.lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let lock = fs::File::create(lock).unwrap();
    lock.lock().unwrap();
    let output = study(folder, &["-o", "a", "--only", "clients=2,method=fedavg"]);
    assert_eq!(output.code, 4, "not all are done: {}", output.err);
    assert!(output.err.contains("another process still runs 1 of these runs"), "{}", output.err);
    assert!(output.out.contains("1 done, 1 running"), "{}\n{}", output.out, output.err);
    drop(lock);
    let output = runs(folder, &["-o", "a", "--only", "clients=2,method=fedavg"]);
    assert!(output.out.contains("2 done"), "{}", output.out);
}

#[test]
fn typos_point_at_their_place_and_nothing_runs() {
    for (from, to, hints) in [
        ("replicates", "replicats", ["a.study.toml:3:1", "did you mean `replicates`?"]),
        ("client.epochs = 3", "client.epoch = 3", ["a.study.toml:10:17", "did you mean `epochs`?"]),
        ("\"faa\"", "\"fa\"", ["a.study.toml:14:12", "did you mean `faa`?"]),
        ("\"bytes_up\"", "\"byte_up\"", ["a.study.toml:14:19", "did you mean `bytes_up`?"]),
        (
            "[run]",
            "[[extra]]\nlabel = \"clients=2, method=long\"\nset = { federation.rounds = 1 }\n\n[run]",
            ["a.study.toml:16:1", "another cell has the label `clients=2, method=long`"],
        ),
        ("base.toml", "bse.toml", ["a.study.toml:2:8", "cannot read the scenario "]),
        ("base.toml", "bse.toml", ["/bse.toml: No such file", "`base` is relative to the folder"]),
        (
            "client.epochs = 3",
            "client.epochs = 0",
            ["error: cell clients=2, method=long, seed 1, and 3 others: ", "a.study.toml:10:26"],
        ),
        (
            "baseline = { method = \"fedavg\" }",
            "baseline = { method = \"x\" }",
            ["13:23", "fedavg, long"],
        ),
    ] {
        let folder = folder(&STUDY.replace(from, to));
        let output = study(folder.path(), &[]);
        assert_eq!(output.code, 3, "{to}: {}", output.err);
        assert!(hints.iter().all(|hint| output.err.contains(hint)), "{to}: {}", output.err);
        assert_eq!(
            output.err.lines().filter(|line| line.starts_with("error")).count(),
            1,
            "each once: {}",
            output.err
        );
        assert!(!folder.path().join("studies").exists());
        // So does a check.
        let output = run_fedcast(folder.path(), &["check", "base.toml", "a.study.toml"]);
        assert_eq!((output.code, &*output.out), (3, "base.toml: valid\n"), "{}", output.err);
        assert!(hints.iter().all(|hint| output.err.contains(hint)), "{to}: {}", output.err);
    }
    let folder = folder(STUDY);
    let output = run_fedcast(folder.path(), &["check", "a.study.toml"]);
    assert_eq!((output.code, &*output.out), (0, "a.study.toml: valid, 8 runs\n"), "{}", output.err);
    let output = run_fedcast(folder.path(), &["check", "a.study.toml", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(
        (&document["files"][0]["valid"], &document["files"][0]["runs"]),
        (&true.into(), &8.into())
    );
    for (arguments, hint) in [
        (&["--only", "methd=long"][..], "did you mean `method`?"),
        (&["--shard", "3/2"], "`3/2` is not a part"),
        (&["--shard", "env"], "SLURM_ARRAY_TASK_ID"),
        (&["--set", "federation.clients=9"], "the axis `clients` sets"),
        (&["--set", "federation={clients=9}"], "the axis `clients` sets `federation.clients`"),
        (&["--set", "client={epochs=9}"], "the axis `method` sets `client.epochs`"),
        (&["--set", "seed.run=9"], "write `replicates` or `seeds` in its file"),
    ] {
        let output = study(folder.path(), arguments);
        assert_eq!(output.code, 2, "{arguments:?}: {}", output.err);
        assert!(output.err.contains(hint), "{arguments:?}: {}", output.err);
    }
}

#[test]
fn a_plan_without_a_run_does_not_call_them_done() {
    let none = STUDY.replace("[compare]", "[[exclude]]\nclients = 2\nmethod = \"long\"\n[compare]");
    let folder = folder(&none);
    let output = study(folder.path(), &["--plan", "--only", "clients=2,method=long"]);
    assert!(output.out.contains("no run is selected"), "{}", output.out);
    assert!(!output.out.contains("all runs"), "{}", output.out);
    let invalid = self::folder(&STUDY.replace("[2, 3]", "[-2, -3]"));
    let output = study(invalid.path(), &["--plan"]);
    assert_eq!(output.code, 3, "{}", output.out);
    assert!(output.out.contains("none of these runs is valid"), "{}", output.out);
    assert!(
        !output.out.contains("all runs") && !output.out.contains("left with"),
        "{}",
        output.out
    );
}

#[test]
fn shipped_studies_can_be_planned() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let file = root.join("scenarios/studies/scale.study.toml");
    let file = file.to_str().unwrap();
    let output = run_fedcast(
        folder.path(),
        &["study", file, "--plan", "--only", "clients=10", "--only", "clients=500,seed=1"],
    );
    assert_eq!(output.code, 0, "{}\n{}", output.out, output.err);
    assert!(output.out.contains("clients=500, method=stsa"), "{}", output.out);
}
