//! Promise: the JSON Schema of scenarios and studies takes every file that fedcast takes, as it is written and with every
//! default written out, and refuses what an editor should mark.

use std::fs;
use std::path::{Path, PathBuf};

use fedcast::methods::Registry;
use fedcast::scenario::Scenario;
use fedcast::study::Study;
use serde_json::Value;

/// As much of JSON Schema as the schemas use; a keyword that is not known here is a failure, so that none goes untried.
struct Judge(Value);

impl Judge {
    /// With every reference replaced by what it refers to.
    fn of(schema: Value) -> Judge {
        let definitions = schema["definitions"].clone();
        Judge(expanded(schema, &definitions))
    }

    /// Returns the error of a text in TOML.
    fn complaint(&self, toml: &str) -> Option<String> {
        let table: toml::Table = toml.parse().unwrap();
        judge(&self.0, &serde_json::to_value(table).unwrap(), "").err()
    }
}

fn expanded(schema: Value, definitions: &Value) -> Value {
    let within = |value| expanded(value, definitions);
    match schema {
        Value::Object(object) => match object.get("$ref").and_then(Value::as_str) {
            Some(reference) => {
                assert_eq!(object.len(), 1, "draft 7 overlooks what stands beside a reference");
                let name = reference.strip_prefix("#/definitions/").unwrap();
                within(definitions.get(name).unwrap().clone())
            }
            None => {
                let rest = object.into_iter().filter(|(keyword, _)| keyword != "definitions");
                rest.map(|(keyword, value)| (keyword, within(value))).collect()
            }
        },
        Value::Array(items) => items.into_iter().map(within).collect(),
        plain => plain,
    }
}

fn judge(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let Value::Object(schema) = schema else {
        assert_eq!(schema, &Value::Bool(true), "{place}: no schema");
        return Ok(());
    };
    for (keyword, rule) in schema {
        let fits = match keyword.as_str() {
            "$schema" | "title" | "description" | "default" | "then" => true,
            "type" => has_type(rule, value),
            "enum" => rule.as_array().unwrap().contains(value),
            "const" => rule == value,
            "minimum" => value.as_f64().is_none_or(|value| value >= rule.as_f64().unwrap()),
            "exclusiveMinimum" => value.as_f64().is_none_or(|value| value > rule.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|value| value <= rule.as_f64().unwrap()),
            "exclusiveMaximum" => value.as_f64().is_none_or(|value| value < rule.as_f64().unwrap()),
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    judge(rule, item, place)?;
                }
                true
            }
            "required" => {
                let has = |key: &Value| value.get(key.as_str().unwrap()).is_some();
                rule.as_array().unwrap().iter().all(has)
            }
            "properties" | "additionalProperties" => {
                properties(schema, value, place)?;
                true
            }
            "anyOf" => rule.as_array().unwrap().iter().any(|one| judge(one, value, place).is_ok()),
            "allOf" => {
                for one in rule.as_array().unwrap() {
                    judge(one, value, place)?;
                }
                true
            }
            "if" => {
                if judge(rule, value, place).is_ok() {
                    judge(&schema["then"], value, place)?;
                }
                true
            }
            other => panic!("{place}: the keyword `{other}` is not tried"),
        };
        if !fits {
            return Err(format!("{place}: {value} breaks {keyword} {rule}"));
        }
    }
    Ok(())
}

fn has_type(rule: &Value, value: &Value) -> bool {
    match rule.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("no such type: {other}"),
    }
}

fn properties(
    schema: &serde_json::Map<String, Value>,
    value: &Value,
    place: &str,
) -> Result<(), String> {
    for (key, value) in value.as_object().into_iter().flatten() {
        let place = format!("{place}.{key}");
        match schema.get("properties").and_then(|known| known.get(key)) {
            Some(form) => judge(form, value, &place)?,
            None => match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => return Err(format!("{place} is unknown")),
                None | Some(Value::Bool(true)) => {}
                Some(form) => judge(form, value, &place)?,
            },
        }
    }
    Ok(())
}

/// Files below a folder of the repository whose names end so.
fn files(folder: &Path, end: &str, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, end, into);
        } else if path.to_string_lossy().ends_with(end) {
            into.push(path);
        }
    }
}

fn shipped(end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"), end, &mut found);
    found.sort();
    found
}

#[test]
fn shipped_scenarios_fit_as_written_and_with_every_default() {
    let methods = Registry::builtin();
    let judge = Judge::of(Scenario::json_schema(&methods));
    let (mut whole, mut effective) = (0, 0);
    for path in
        shipped(".toml").iter().filter(|path| !path.to_string_lossy().ends_with(".study.toml"))
    {
        // A base need not be a whole scenario.
        if path.parent().is_some_and(|folder| folder.ends_with("base")) {
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(judge.complaint(&text), None, "{}", path.display());
        whole += 1;
        // Of many files that differ in numbers one in four is enough.
        if whole % 4 == 1
            && let Ok(loaded) = Scenario::load(path, &[], &methods)
        {
            let text = loaded.scenario.to_effective_toml();
            // TOML has infinities, JSON has none.
            let finite: String = text
                .lines()
                .filter(|line| !line.ends_with("inf"))
                .map(|line| format!("{line}\n"))
                .collect();
            assert_eq!(judge.complaint(&finite), None, "{}", path.display());
            effective += 1;
        }
    }
    assert!(whole > 100 && effective > 25, "{whole} files, {effective} of them read");
}

#[test]
fn shipped_studies_fit() {
    let judge = Judge::of(Study::json_schema());
    let studies = shipped(".study.toml");
    assert!(!studies.is_empty());
    for path in studies {
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(judge.complaint(&text), None, "{}", path.display());
    }
    assert!(judge.complaint("schema = 2\nbase = \"a.toml\"\nreplicats = 3").is_some());
    assert!(judge.complaint("schema = 2").is_some(), "a study has a base or cells");
    let cell = |more: &str| format!("schema = 2\n[[cell]]\nmethod = \"hgp\"\n{more}\n");
    for more in [
        "scenario = \"a.toml\"",
        "expected = { faa = 71.2, deviation = { faa = 0.8 } }",
        "expected.accuracy_by_stage = [79.0, 69.3]",
        "[report]\ngrid = { rows = \"method\", columns = \"setting\" }",
    ] {
        assert_eq!(judge.complaint(&cell(more)), None, "{more}");
    }
    for more in [
        "scenario = 3",
        "expected = { fa = 71.2 }",
        "expected = { deviation = 0.8 }",
        "expected = { deviation = { faa = -1.0 } }",
        "[report]\ngrid = { rows = 1 }",
    ] {
        assert!(judge.complaint(&cell(more)).is_some(), "{more}");
    }
}

#[test]
fn what_an_editor_should_mark_does_not_fit() {
    let judge = Judge::of(Scenario::json_schema(&Registry::builtin()));
    let good = "schema = 2\ndata.source = \"digits\"\ntasks.count = 5\npartition.kind = \"iid\"\n\
                method.name = \"hgp\"\n";
    assert_eq!(judge.complaint(good), None);
    for more in [
        "federation.clinets = 3",
        "federation.clients = 0",
        "federation.clients = \"3\"",
        "federation.clients = 2.5",
        "participation.kind = \"some\"",
        "method.width = 64",
        "method.prompt_len = \"long\"",
        "links.rtt_ms = { dist = \"normal\", mu = 3 }",
        "faults = [{ kind = \"crash\", rat = 0.5 }]",
        "wire.up.codec = \"f12\"",
        "seeds.run = 1",
        "wire = \"verifi\"",
    ] {
        assert!(judge.complaint(&format!("{good}{more}")).is_some(), "{more}");
    }
    for more in [
        "method.prompt_len = 8",
        "wire = \"verify\"",
        "devices.workers = 3",
        "devices.workers = \"auto\"",
        "links.rtt_ms = 50.0",
        "links.rtt_ms = { dist = \"normal\", mean = 3, sd = 1 }",
        "faults = [{ kind = \"crash\", rate = 0.5 }]",
        "wire.up = { codec = \"bf16\", kinds = { head = \"f32\" } }",
        "privacy.noise.scale = 0.1",
    ] {
        assert_eq!(judge.complaint(&format!("{good}{more}")), None, "{more}");
    }
    assert!(judge.complaint("schema = 2").is_some(), "a scenario has tasks and a method");
    assert_eq!(judge.complaint("extends = \"base.toml\"\nfederation.clients = 3"), None);
}

#[test]
fn what_many_methods_have_is_said_once() {
    let schema = Scenario::json_schema(&Registry::builtin());
    let text = format!("{schema:#}");
    assert!(text.len() < 420_000, "{} bytes", text.len());
    assert!(schema["definitions"].as_object().is_some_and(|forms| forms.len() > 20));
}
