//! Promise: a program that adds a method has it in every command, and its studies start that program.
//!
//! The program is `examples/own_method.rs`, which `cargo test` builds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{CommandOutput, fedcast, read, run_command, run_fedcast};

const BASE: &str = r#"schema = 2
data = { source = "digits", subset = 12 }
tasks = { sizes = [5, 5] }
partition = { kind = "iid", min_samples = 1 }
method = { name = "damped-fedavg", train = "head", rate = 0.5 }
federation = { clients = 2, rounds = 2 }
client = { epochs = 1, batch_size = 16 }
backbone = { kind = "pixels" }
record = { checkpoint = { every = "task", keep = 9, max_time_fraction = 1.0 } }
"#;

const STUDY: &str = r#"schema = 2
base = "base.toml"

[axes.method]
fedavg = { method = { name = "fedavg", train = "head" } }
damped = { method.rate = 0.25 }

[compare]
baseline = { method = "fedavg" }
metrics = ["faa", "sample_passes"]

[run]
jobs = 2
"#;

/// Returns the path of the example, which cargo puts into a folder next to the binary.
fn program() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_fedcast"));
    let name = format!("own_method{}", std::env::consts::EXE_SUFFIX);
    let program = binary.with_file_name("examples").join(name);
    let advice =
        "`cargo test` builds it; with `--test cli` run `cargo build --example own_method` first";
    assert!(program.is_file(), "{} is not there: {advice}", program.display());
    program
}

/// Runs the example with the environment of the other tests.
fn own(folder: &Path, arguments: &[&str]) -> CommandOutput {
    let usual = fedcast(folder, arguments);
    let mut command = Command::new(program());
    command.args(arguments).current_dir(folder);
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    run_command(&mut command)
}

#[track_caller]
fn done(folder: &Path, arguments: &[&str]) -> String {
    let CommandOutput { code, out, err } = own(folder, arguments);
    assert_eq!(code, 0, "{arguments:?}\n{out}\n{err}");
    out
}

/// A folder with the scenario and a study of it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("base.toml"), BASE).unwrap();
    fs::write(folder.path().join("a.study.toml"), STUDY).unwrap();
    folder
}

#[test]
fn commands_without_a_run_know_a_method_from_outside() {
    let folder = folder();
    let path = folder.path();
    assert!(done(path, &["methods"]).contains("damped-fedavg"));
    assert!(done(path, &["methods", "show", "damped-fedavg"]).contains("rate = 0.5"));
    assert!(done(path, &["keys", "method.damped-fedavg"]).contains("method.rate"));
    assert!(done(path, &["schema", "scenario"]).contains("damped-fedavg"));
    assert!(done(path, &["check", "base.toml"]).contains("valid"));
    done(path, &["plan", "base.toml"]);
    done(path, &["new", "new.toml", "--method", "damped-fedavg"]);
    done(path, &["check", "new.toml"]);
    // The binary of fedcast has no such method.
    assert_eq!(run_fedcast(path, &["check", "base.toml"]).code, 3);
}

#[test]
fn commands_of_a_run_know_a_method_from_outside() {
    let folder = folder();
    let path = folder.path();
    done(path, &["run", "base.toml", "-q", "-o", "run"]);
    assert!(done(path, &["replay", "run", "--verify", "-q"]).starts_with("identical: "));
    done(path, &["replay", "run", "--set", "links.preset=mobile"]);
    let settings = ["--set", "method.rate=1.0", "-o", "forked"];
    done(path, &[&["fork", "run", "--after-task", "1", "-q"], &settings[..]].concat());
    done(path, &["export", "run", "-o", "head.safetensors", "--recompute"]);
    assert_eq!(own(path, &["resume", "run", "-q"]).code, 4, "the run is complete");
    assert!(done(path, &["compare", "run", "forked"]).contains("method.rate"));
}

#[test]
fn cells_run_by_the_program_that_has_the_method() {
    let folder = folder();
    let path = folder.path();
    assert!(done(path, &["study", "a.study.toml", "-o", "study", "--plan"]).contains("damped"));
    let output = done(path, &["study", "a.study.toml", "-o", "study", "-q"]);
    assert!(output.contains("2 done"), "{output}");
    // The planned work of a run needs its method.
    let cells = csv::Reader::from_path(path.join("study/cells.csv")).unwrap().into_records();
    let head = read(path.join("study/cells.csv"));
    let passes = head.lines().next().unwrap().split(',').position(|name| name == "sample_passes");
    for cell in cells {
        assert!(!cell.unwrap()[passes.unwrap()].is_empty(), "{head}");
    }
    done(path, &["report", "study"]);
    let page = read(path.join("study/report.html"));
    assert!(page.contains("damped-fedavg"), "the page has the method");
}
