//! Promise: what a command prints with `--format json` fits the schema of its kind and has its version.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::arms::{HEAD, STSA, run};
use crate::command::{CommandOutput, read, run_fedcast, tiny};
use crate::documents::{faults, schema};

const STUDY: &str = "schema = 2\nbase = \"tiny.toml\"\nreplicates = 2\n\
                     [axes.method]\nhead = { method = { name = \"fedavg\", train = \"head\" } }\n\
                     sums = { method = { name = \"stsa\", width = 16, first = { name = \"none\" } } }\n";

const CLIENT_TASKS: &str = "schema = 2\ndata = { source = \"digits\", subset = 20 }\n\
    tasks = { count = 2, arrival = \"client-tasks\", classes_per_client_task = 4 }\n\
    partition = { kind = \"slices\" }\nbackbone = { kind = \"pixels\" }\nmethod = { name = \"fedavg\" }\n\
    federation = { clients = 3, rounds = 1 }\nclient = { epochs = 1 }\n";

/// Holds what a command prints against the schema of a kind, and returns it.
#[track_caller]
fn fits(folder: &Path, kind: &str, arguments: &[&str]) -> Value {
    printed(kind, &run_fedcast(folder, &[arguments, &["--format", "json"]].concat()))
}

/// Holds what a command has printed against the schema of a kind, and returns it.
#[track_caller]
pub fn printed(kind: &str, output: &CommandOutput) -> Value {
    let text = if kind == "error" { &output.err } else { &output.out };
    let document: Value = serde_json::from_str(text)
        .unwrap_or_else(|error| panic!("{kind}: {error}\n{text}\n{}", output.err));
    assert_eq!(document["format"], 1, "{kind}");
    assert_eq!(faults(&schema(kind), &document, kind), [""; 0]);
    document
}

#[test]
fn documents_of_commands_about_runs_fit_their_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, "runs/a", HEAD, 1, &["--set", "record.models=tasks"]);
    run(folder, "runs/b", STSA, 1, &[]);
    let compared = fits(folder, "compare", &["compare", "runs/a", "runs/b"]);
    assert_eq!(compared["comparison"]["groups"].as_array().unwrap().len(), 2);
    let worse = ["compare", "runs/b", "runs/a", "--fail-if-worse", "bytes_up=0%"];
    assert_eq!(fits(folder, "compare", &worse)["worse"].as_array().unwrap().len(), 1);
    assert_eq!(fits(folder, "runs", &["runs"])["runs"].as_array().unwrap().len(), 2);
    let shown = fits(folder, "runs-show", &["runs", "show", "runs/a"]);
    assert_eq!(shown["manifest"]["method"], shown["run"]["method"]);
    assert!(shown["summary"]["accuracy"]["faa"].is_number());
    let verified = fits(folder, "verify", &["replay", "runs/a", "--verify", "-q"]);
    assert_eq!(verified["digests"], shown["manifest"]["digests"]);
    let slower = ["replay", "runs/a", "--set", "time.ms_per_sample=50"];
    let retimed = fits(folder, "what-if", &slower);
    let rounds = retimed["rounds"].as_array().unwrap();
    let numbers: Vec<u64> = rounds.iter().map(|row| row["round"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2]);
    let later = |row: &Value| row["retimed_s"].as_f64() > row["recorded_s"].as_f64();
    assert!(rounds.iter().all(later), "{retimed}");
    fits(folder, "export", &["export", "runs/a", "-o", "model.safetensors"]);
    let invert = ["invert", "runs/b", "--prior", "pixels", "--steps", "2", "--images", "1"];
    let found = fits(folder, "invert", &invert);
    assert!(found["features"][0]["sample"].is_u64() && found["upload"]["sample"].is_null());
}

#[test]
fn documents_of_commands_about_files_fit_their_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("tiny.toml", &read(tiny()));
    write("bad.toml", &read(tiny()).replace("hgp", "hpg"));
    write("a.study.toml", STUDY);
    write("tasks.toml", CLIENT_TASKS);
    write("old.toml", "schema = 1\nlinks.loss = 0.1\n");
    let planned = fits(folder, "plan", &["plan", "tiny.toml"]);
    assert!(planned["total"]["up"].as_u64() > Some(0));
    let estimate = ["plan", "tiny.toml", "--estimate", "--workers", "1"];
    assert!(fits(folder, "plan", &estimate)["estimate"]["wall_s"].is_number());
    let partition = fits(folder, "partition", &["plan", "tiny.toml", "--partition"]);
    assert!(partition["holdings"][0]["samples"].as_u64() > Some(0));
    let checked = fits(folder, "check", &["check", "tiny.toml", "bad.toml", "a.study.toml"]);
    let of = |key: &str| -> Vec<&Value> {
        checked["files"].as_array().unwrap().iter().map(|file| &file[key]).collect()
    };
    assert_eq!(of("valid"), [true, false, true]);
    assert_eq!(of("runs")[2], 4);
    assert_eq!(
        fits(folder, "study-plan", &["study", "a.study.toml", "--plan"])["cells"][3]["seed"],
        2
    );
    let results = fits(folder, "study-runs", &["study", "a.study.toml", "-q"]);
    assert_eq!(results["runs"]["done"], 4);
    assert!(results["cells"][0]["metrics"]["faa"].is_number());
    fits(folder, "single-task", &["single-task", "tasks.toml", "-q"]);
    let migrated = fits(folder, "migrate", &["migrate", "old.toml", "--check"]);
    assert!(migrated["files"][0]["changes"][0]["new"].is_string());
    let error = fits(folder, "error", &["run", "bad.toml"]);
    assert_eq!(error["error"]["exit"], 3);
    assert!(error["error"]["diagnostics"][0]["place"]["line"].is_u64());
}

#[test]
fn documents_of_commands_about_the_program_fit_their_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for arguments in [&["methods"][..], &["methods", "show", "c2prompt"]] {
        let methods = fits(folder, "methods", arguments);
        let all = methods["methods"].as_array().unwrap();
        let one = all.iter().find(|one| one["name"] == "c2prompt").unwrap();
        assert_eq!(one["name_in_print"], "C²Prompt");
        assert!(!one["parameters"].as_array().unwrap().is_empty());
    }
    assert!(fits(folder, "keys", &["keys", "partition"])["keys"][0]["doc"].is_string());
    fits(folder, "keys", &["keys"]);
    fits(folder, "columns", &["columns"]);
    assert!(
        fits(folder, "fetch-list", &["fetch", "--list"])["data_sets"][0]["license"].is_string()
    );
    assert!(fits(folder, "doctor", &["doctor"])["machine"]["cores"].is_u64());
}

/// A key that a type has not, or of another type, is noticed.
#[test]
fn printed_documents_of_another_form_do_not_fit() {
    let schema = schema("check");
    let document = |file: &str| format!("{{\"format\": 1, \"files\": [{file}]}}");
    let whole = "{\"file\": \"a.toml\", \"valid\": true, \"errors\": [], \"notes\": []}";
    let changed = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        let document: Value = serde_json::from_str(&document(&whole.replace(from, to))).unwrap();
        faults(&schema, &document, "check")
    };
    assert_eq!(changed("true", "true"), [""; 0]);
    assert_eq!(changed("true", "1").len(), 1);
    assert_eq!(changed("true", "true, \"vaild\": true"), ["check.files[0].vaild: no such key"]);
    assert_eq!(changed("\"valid\": true, ", ""), ["check.files[0]: no \"valid\""]);
    assert_eq!(changed("\"a.toml\"", "null"), [""; 0]);
    let place = changed("[]", "[{\"place\": {\"line\": \"1\"}}]");
    assert!(
        place
            .iter()
            .any(|fault| fault.ends_with(".line: \"1\" is none of [\"integer\", \"null\"]")),
        "{place:?}"
    );
    let version: Value = serde_json::from_str("{\"format\": 2, \"files\": []}").unwrap();
    assert_eq!(faults(&schema, &version, "check").len(), 1);
}
