//! Promise: every column of every file of a run is in `fedcast columns`, and nothing is in it that no run has.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{read, run_fedcast, tiny_run};

/// A run with everything on that can be on at once, and one of tasks of a client's own.
const EVERYTHING: &[&str] = &[
    "--set",
    "record={metrics=[\"federated-bias\"],parquet=true,confusion=true,predictions=true,tensorboard=true,models=\"tasks\"}",
];

fn dictionary(folder: &Path) -> Vec<Value> {
    let output = run_fedcast(folder, &["columns", "--format", "json"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let document: Value = serde_json::from_str(&output.out).unwrap();
    document["files"].as_array().unwrap().clone()
}

fn columns<'a>(dictionary: &'a [Value], file: &str) -> Vec<&'a str> {
    let entry = dictionary.iter().find(|entry| entry["name"] == file);
    let entry = entry.unwrap_or_else(|| panic!("{file} is not in the dictionary"));
    entry["columns"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect()
}

#[test]
fn every_column_is_explained_and_every_explained_column_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(tiny_run(folder, EVERYTHING).code, 0);
    let dictionary = dictionary(folder);
    let mut seen = BTreeSet::new();
    for file in fs::read_dir(folder.join("run")).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if let Some(table) = name.strip_suffix(".parquet") {
            assert!(folder.join("run").join(format!("{table}.csv")).exists(), "{name}");
            seen.insert("*.parquet".to_string());
            continue;
        }
        let explained = columns(&dictionary, &name);
        if name.ends_with(".csv") {
            let text = read(file.path());
            let head: Vec<&str> = text.lines().next().unwrap().split(',').collect();
            assert_eq!(head, explained, "{name}");
        }
        seen.insert(name);
    }
    let tables = dictionary.iter().map(|entry| entry["name"].as_str().unwrap());
    let of_runs = tables.filter(|name| !name.starts_with("study/"));
    let unseen: Vec<&str> = of_runs.filter(|name| !seen.contains(*name)).collect();
    // Only where clients have tasks of their own, tests of client tasks hold its columns; only in a forked or inverted run.
    assert_eq!(unseen, ["client_tasks.csv", "fork", "inversion"]);
}

#[test]
fn keys_of_documents_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(tiny_run(folder, EVERYTHING).code, 0);
    let dictionary = dictionary(folder);
    for name in ["summary.json", "manifest.json"] {
        let document: Value = serde_json::from_str(&read(folder.join("run").join(name))).unwrap();
        explained(&document, "", &columns(&dictionary, name), name);
    }
    for name in ["rounds.jsonl", "profile.jsonl", "events.jsonl"] {
        for line in read(folder.join("run").join(name)).lines() {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("_step");
            explained(&line, "", &columns(&dictionary, name), name);
        }
    }
}

/// Walks a document: every leaf matches a key of the dictionary.
fn explained(value: &Value, path: &str, keys: &[&str], file: &str) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                explained(value, &format!("{path}{dot}{name}"), keys, file);
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| explained(item, &format!("{path}[]"), keys, file));
        }
        _ => assert!(
            keys.iter().any(|key| same(key, path)) || file == "events.jsonl" && other(path),
            "{file}: {path}"
        ),
    }
}

/// Keys that belong to one event each.
fn other(path: &str) -> bool {
    path.starts_with("event.")
}

fn same(key: &str, path: &str) -> bool {
    let (key, path): (Vec<_>, Vec<_>) = (key.split('.').collect(), path.split('.').collect());
    key.len() == path.len() && key.iter().zip(path).all(|(k, p)| k.contains('<') || **k == *p)
}

#[test]
fn help_with_columns_is_the_dictionary() {
    let folder = tempfile::tempdir().unwrap();
    let [help, all, one, none] = [
        &["help", "columns"][..],
        &["columns"],
        &["columns", "matrix"],
        &["columns", "martix.csv"],
    ]
    .map(|arguments| run_fedcast(folder.path(), arguments));
    assert_eq!((help.code, help.out.as_str()), (0, all.out.as_str()));
    assert!(all.out.contains("\nparticipation.csv\n"));
    insta::assert_snapshot!("columns_of_the_matrix", one.out);
    assert_eq!(none.code, 2);
    assert!(
        none.err.contains("unknown file or column `martix.csv`") && none.err.contains("matrix.csv")
    );
    let renamed = run_fedcast(folder.path(), &["columns", "slots.csv"]);
    assert!(renamed.code == 2 && renamed.err.contains("`client_tasks.csv`"), "{}", renamed.err);
}
