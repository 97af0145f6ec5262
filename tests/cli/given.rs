//! Promise: where something of another kind is named than was asked for, it is said what it is and what to name instead.

use std::fs;

use crate::command::{read, run_fedcast, tiny, tiny_run};

/// Commands that ask for a run directory, with a path in its place.
fn of_a_run(path: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["replay", path],
        vec!["replay", path, "--verify"],
        vec!["replay", path, "--set", "links.rtt_ms=5"],
        vec!["resume", path],
        vec!["fork", path, "--after-task", "1"],
        vec!["export", path, "-o", "model.safetensors"],
        vec!["invert", path],
        vec!["runs", "show", path],
        vec!["runs", "rm", path, "--yes"],
    ]
}

#[test]
fn what_is_no_run_is_named_for_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(tiny_run(folder, &[]).code, 0);
    fs::write(folder.join("a.toml"), read(tiny())).unwrap();
    let study = "schema = 2\nbase = \"a.toml\"\n[axes.rounds]\nkey = \"federation.rounds\"\nvalues = [1, 2]\n";
    fs::write(folder.join("b.study.toml"), study).unwrap();
    fs::create_dir_all(folder.join("data/train")).unwrap();
    fs::create_dir_all(folder.join("studies/x")).unwrap();
    fs::rename(folder.join("run"), folder.join("studies/x/seed-1")).unwrap();
    for (path, what) in [
        ("a.toml", "it is a scenario; run it first: `fedcast run a.toml`"),
        ("b.study.toml", "it is a study; run it first: `fedcast study b.study.toml`"),
        ("studies/x/seed-1/rounds.csv", "name its directory: studies/x/seed-1"),
        ("studies", "a folder of runs; name one of them, such as studies/x/seed-1"),
        ("data", "it is a folder without a manifest.json"),
        ("nowhere", "no such file or folder"),
    ] {
        for words in of_a_run(path) {
            let output = run_fedcast(folder, &words);
            assert_eq!(output.code, 2, "{words:?}: {}", output.err);
            assert!(output.err.contains(what), "{words:?}: {}", output.err);
            assert!(output.err.contains(&format!("{path} is not a run directory")));
        }
    }
    // Folders of runs are asked for here.
    for words in [
        vec!["report", "a.toml"],
        vec!["compare", "studies", "a.toml"],
        vec!["runs", "ls", "a.toml"],
    ] {
        let output = run_fedcast(folder, &words);
        assert_eq!(output.code, 2, "{words:?}: {}", output.err);
        assert!(output.err.contains("run it first: `fedcast run a.toml`"), "{}", output.err);
    }
    assert_eq!(run_fedcast(folder, &["runs", "show", "studies/x/seed-1"]).code, 0);
}

#[test]
fn a_run_is_no_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(tiny_run(folder, &[]).code, 0);
    for command in ["run", "check", "plan", "single-task", "study"] {
        let output = run_fedcast(folder, &[command, "run"]);
        assert_eq!(output.code, 3, "{command}: {}", output.err);
        for part in
            ["it is the directory of a run", "run/scenario.effective.toml", "fedcast replay run"]
        {
            assert!(output.err.contains(part), "{command}: {}", output.err);
        }
    }
    let output = run_fedcast(folder, &["new", "run"]);
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("it is the directory of a run"), "{}", output.err);
    fs::create_dir(folder.join("mine")).unwrap();
    fs::write(folder.join("mine/a.toml"), read(tiny())).unwrap();
    let output = run_fedcast(folder, &["plan", "mine"]);
    assert!(output.err.contains("name a file in it, such as mine/a.toml"), "{}", output.err);
    let study =
        "schema = 2\nbase = \"a.toml\"\n[axes.rounds]\nkey = \"federation.rounds\"\nvalues = [1]\n";
    fs::write(folder.join("mine/b.study.toml"), study).unwrap();
    for (command, file, what) in [
        ("run", "mine/b.study.toml", "fedcast study mine/b.study.toml"),
        ("plan", "mine/b.study.toml", "fedcast study mine/b.study.toml"),
        ("study", "mine/a.toml", "fedcast run mine/a.toml"),
    ] {
        let output = run_fedcast(folder, &[command, file]);
        assert_eq!(output.code, 3, "{command}: {}", output.err);
        assert!(output.err.contains(what), "{command}: {}", output.err);
    }
}
