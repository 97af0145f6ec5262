//! Promise: `tools/trackers/log_runs.py` hands a tracker the configuration, the rounds and the summary of every run.
//!
//! Modules of this test take the place of the clients, which are not needed here.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::arms::{HEAD, STSA, run};
use crate::command::read;

const WANDB: &str = r#"
import json
class Run:
    def __init__(self, told):
        self.told = told | {"log": []}
        self.summary = {}
    def log(self, numbers, step):
        self.told["log"].append([step, numbers])
    def finish(self):
        with open("wandb.jsonl", "a") as file:
            file.write(json.dumps(self.told | {"summary": self.summary}) + "\n")
def init(**told):
    return Run(told)
"#;

/// A Python that reads TOML, if there is one.
pub fn python() -> Option<&'static str> {
    let reads = |name: &&str| {
        let said = Command::new(name).args(["-c", "import tomllib"]).output();
        said.is_ok_and(|said| said.status.success())
    };
    ["python3", "python"].into_iter().find(reads)
}

fn log(folder: &Path, python: &str, arguments: &[&str]) -> std::process::Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tools/trackers/log_runs.py");
    let mut command = Command::new(python);
    command.arg(script).args(arguments).current_dir(folder).env("PYTHONPATH", folder);
    command.output().unwrap()
}

#[test]
fn a_tracker_gets_every_run_with_its_rounds() {
    let Some(python) = python() else {
        println!("there is no Python 3.11, so the script is not run");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("wandb.py"), WANDB).unwrap();
    run(folder, "all/head", HEAD, 1, &["--set", "federation.clients=4"]);
    run(folder, "all/stsa", STSA, 2, &[]);
    let said = log(folder, python, &["--to", "wandb", "--project", "p", "all"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let lines = read(folder.join("wandb.jsonl"));
    let runs: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(runs.len(), 2);
    let [head, stsa] = [&runs[0], &runs[1]];
    assert_eq!((&head["name"], &stsa["name"]), (&"head".into(), &"stsa".into()));
    assert_eq!(
        (&head["group"], &head["project"], &head["mode"]),
        (&"all".into(), &"p".into(), &"offline".into())
    );
    assert_eq!(head["config"]["federation.clients"], 4);
    assert_eq!(
        (&stsa["config"]["seeds.run"], &stsa["config"]["method"]),
        (&2.into(), &"stsa".into())
    );
    let summary: Value = serde_json::from_str(&read(folder.join("all/stsa/summary.json"))).unwrap();
    assert_eq!(stsa["summary"]["accuracy.faa"], summary["accuracy"]["faa"]);
    let rounds = read(folder.join("all/stsa/rounds.jsonl"));
    let rounds: Vec<Value> =
        rounds.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let logged = stsa["log"].as_array().unwrap();
    assert_eq!(logged.len(), rounds.len());
    for (logged, round) in logged.iter().zip(&rounds) {
        assert_eq!((&logged[0], &logged[1]["bytes_up"]), (&round["_step"], &round["bytes_up"]));
        // Words and missing numbers are no metrics.
        assert!(logged[1].get("phase").is_none() && logged[1].get("response_entropy").is_none());
    }
}

#[test]
fn unfinished_runs_are_left_out() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("a")).unwrap();
    fs::write(folder.join("a/manifest.json"), "{\"status\": \"running\"}").unwrap();
    let said = log(folder, python, &["--to", "wandb", "."]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(2), "{text}");
    assert!(text.contains("a: left out, its status is running"), "{text}");
    assert!(text.contains("no finished run at or below it"), "{text}");
}
