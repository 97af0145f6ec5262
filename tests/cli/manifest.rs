//! Promise: manifest.json says where a run comes from, when it was computed and what it took; none of that is in a digest.

use std::fs;

use fedcast::experiment::{is_held, read_manifest, was_killed};
use serde_json::Value;

use crate::command::{read, run_fedcast, tiny, tiny_run};

#[test]
fn a_manifest_says_command_changes_file_times_and_cost() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = format!("# A remark of its own.\n{}", read(tiny()));
    fs::write(folder.join("own.toml"), &own).unwrap();
    let run = |out: &str, more: &[&str]| {
        let output = run_fedcast(folder, &[&["run", "own.toml", "-q", "-o", out], more].concat());
        assert_eq!(output.code, 0, "{}", output.err);
        let manifest: Value =
            serde_json::from_str(&read(folder.join(out).join("manifest.json"))).unwrap();
        (manifest, output.out)
    };
    let (manifest, out) = run("one", &["--set", "federation.rounds=2", "--seed", "4"]);
    assert_eq!(manifest["origin"]["file"], "own.toml");
    assert_eq!(manifest["origin"]["text"], own.as_str());
    assert_eq!(manifest["overrides"], serde_json::json!(["federation.rounds=2", "seed.run=4"]));
    let command =
        ["run", "own.toml", "-q", "-o", "one", "--set", "federation.rounds=2", "--seed", "4"];
    assert_eq!(manifest["command"], serde_json::json!(command));
    let [started, ended] = ["started", "ended"].map(|key| manifest[key].as_str().unwrap());
    assert!(started <= ended && started.ends_with('Z'), "{started} {ended}");
    assert!(manifest["wall_s"].as_f64().unwrap() > 0.0);
    if cfg!(target_os = "linux") {
        assert!(manifest["peak_memory_mb"].as_f64().unwrap() > 1.0);
        assert!(out.contains("peak memory "), "{out}");
    }
    // Another file and command to the same scenario: the same digests.
    fs::write(folder.join("own.toml"), own.replace("rounds = 1", "rounds = 2")).unwrap();
    let (other, _) = run("two", &["--set", "seed.run=4"]);
    assert_ne!(other["origin"], manifest["origin"]);
    assert_eq!(other["digests"], manifest["digests"]);
    assert_eq!(other["scenario"]["hash"], manifest["scenario"]["hash"]);
}

#[test]
fn a_killed_run_is_distinguished_from_a_running_one() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tiny_run(folder.path(), &[]).code, 0);
    let run = folder.path().join("run");
    assert!(!was_killed(&run, &read_manifest(&run).unwrap()), "it is done");
    let text = read(run.join("manifest.json")).replace("\"done\"", "\"running\"");
    fs::write(run.join("manifest.json"), text).unwrap();
    assert!(was_killed(&run, &read_manifest(&run).unwrap()));
    let lock = fs::File::options().write(true).open(run.join("run.lock")).unwrap();
    lock.lock().unwrap();
    assert!(is_held(&run) && !was_killed(&run, &read_manifest(&run).unwrap()));
}
