//! Promise: documents of runs fit the JSON Schemas that `fedcast schema` prints, with every key that they have.

use serde_json::{Value, json};

use crate::arms::{HEAD, STSA, run};
use crate::command::{read, run_fedcast, tiny};

/// The schema of a kind of documents.
pub fn schema(kind: &str) -> Value {
    let output = run_fedcast(std::env::temp_dir().as_path(), &["schema", kind]);
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(&output.out).unwrap()
}

/// Faults of a value, as far as these schemas go: type, const, properties, required, additional properties, items.
pub fn faults(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(only) = schema.get("const").filter(|only| *only != value) {
        found.push(format!("{path}: {value} is not {only}"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let fits = |of: &&str| match *of {
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{path}: unknown type {other}"),
    };
    if !types.is_empty() && !types.iter().any(fits) {
        found.push(format!("{path}: {value} is none of {types:?}"));
    }
    for needed in schema["required"].as_array().into_iter().flatten() {
        if value.get(needed.as_str().unwrap()).is_none() {
            found.push(format!("{path}: no {needed}"));
        }
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        match (schema["properties"].get(key), &schema["additionalProperties"]) {
            (Some(of), _) => found.extend(faults(of, inner, &path)),
            (None, Value::Bool(false)) => found.push(format!("{path}: no such key")),
            (None, others) => found.extend(faults(others, inner, &path)),
        }
    }
    for (place, inner) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(faults(&schema["items"], inner, &format!("{path}[{place}]")));
    }
    found
}

#[test]
fn documents_of_runs_fit_their_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, "head", HEAD, 1, &["--set", "expected={source=\"a table\",faa=50}"]);
    run(folder, "stsa", STSA, 1, &["--set", "federation.clients=4"]);
    let faulty = [
        "--set",
        "round={close=\"deadline\",deadline_s=0.3}",
        "--set",
        "links={preset=\"mobile\",loss_rate=0.3}",
    ];
    run(folder, "hgp", "method={name=\"hgp\",prompt_len=4}", 1, &faulty);
    for name in ["head", "stsa", "hgp"] {
        for (kind, file) in [("summary", "summary.json"), ("manifest", "manifest.json")] {
            let document: Value =
                serde_json::from_str(&read(folder.join(name).join(file))).unwrap();
            assert_eq!(faults(&schema(kind), &document, file), [""; 0], "{name}");
        }
        for (kind, file) in [("rounds", "rounds.jsonl"), ("profile", "profile.jsonl")] {
            let text = read(folder.join(name).join(file));
            assert!(text.lines().count() > 0, "{name}/{file}");
            for line in text.lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                assert_eq!(faults(&schema(kind), &line, file), [""; 0], "{name}");
            }
        }
    }
    let tiny = tiny();
    let output =
        run_fedcast(folder, &["run", tiny.to_str().unwrap(), "-q", "-o", "r", "--format", "json"]);
    let document: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(faults(&schema("run"), &document, "run"), [""; 0]);
}

#[test]
fn a_document_of_another_form_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, "a", STSA, 1, &[]);
    let text = read(folder.join("a/summary.json"));
    let changed = |change: fn(&mut Value)| {
        let mut document: Value = serde_json::from_str(&text).unwrap();
        change(&mut document);
        faults(&schema("summary"), &document, "summary")
    };
    assert_eq!(changed(|_| {}), [""; 0]);
    assert_eq!(changed(|d| d["format"] = json!(1)).len(), 1);
    assert_eq!(changed(|d| d["accuracy"]["faa"] = json!("high")).len(), 1);
    assert_eq!(changed(|d| d["acuracy"] = json!({})), ["summary.acuracy: no such key"]);
    assert_eq!(changed(|d| d["rounds"] = json!(1.5)).len(), 1);
    let removed = changed(|d| {
        d.as_object_mut().unwrap().remove("format");
    });
    assert_eq!(removed, ["summary: no \"format\""]);
    let removed = changed(|d| {
        d["accuracy"].as_object_mut().unwrap().remove("faa");
    });
    assert_eq!(removed, ["summary.accuracy: no \"faa\""]);
}
