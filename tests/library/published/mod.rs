//! Promise: scenario files of papers say what the papers and their released codes say. `constants.toml` next to this
//! file holds every constant with its source, and a constant without a source, or another value, fails here.

mod expected;
mod output_names;
mod papers;
mod pilora_rates;
mod reproduction;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fedcast::methods::Registry;
use fedcast::scenario::Scenario;
use serde::Deserialize;
use toml::{Table, Value};

/// Folders whose files repeat tables and figures of papers.
const PAPERS: [&str; 11] = [
    "baselines",
    "c2prompt",
    "fedcil",
    "fedhaf",
    "glfc",
    "hepco",
    "hgp",
    "lander",
    "pilora",
    "prompts",
    "stsa",
];

/// Tables of a scenario that decide what is learned from what by whom; `[method]` is looked at with its defaults, of
/// the others what the file or its base writes, and what of [`LEFT`] is left to defaults.
const DECIDING: [&str; 11] = [
    "backbone",
    "client",
    "data",
    "federation",
    "participation",
    "partition",
    "privacy",
    "round",
    "seed",
    "tasks",
    "wire",
];

/// Keys whose values are paths or names of files.
const PLACES: [&str; 2] = ["backbone.vocabulary", "data.path"];

/// Keys that files may leave to defaults, which papers and releases have values of.
const LEFT: [&str; 22] = [
    "backbone.stem",
    "client.max_grad_norm",
    "client.epoch_schedule",
    "client.optimizer.betas",
    "client.optimizer.eps",
    "client.optimizer.weight_decay",
    "client.round_schedule.kind",
    "data.statistics.transform",
    "data.stored_size",
    "data.test.interpolation",
    "data.test.normalize",
    "data.train.interpolation",
    "data.train.ratio",
    "data.train.scale",
    "participation.kind",
    "partition.alpha",
    "partition.by",
    "partition.reserved_samples",
    "partition.reserved_beta",
    "tasks.switch_fraction",
    "tasks.order",
    "tasks.overlap",
];

/// Constants with one source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sourced {
    /// Section, table or file of the release; or the reason for a value that was not published.
    source: String,
    /// Scenario files from the folder of scenarios; `*` is any text.
    files: Vec<String>,
    /// Files among them to which the values do not apply.
    #[serde(default)]
    except: Vec<String>,
    /// Keys as in a scenario.
    values: Table,
}

#[derive(Deserialize)]
struct Constants {
    constants: Vec<Sourced>,
}

impl Sourced {
    fn is_about(&self, file: &str) -> bool {
        let one_of = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, file));
        one_of(&self.files) && !one_of(&self.except)
    }
}

/// Returns true if `text` matches `pattern`, whose stars are any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|tail| {
            (0..=tail.len()).any(|at| tail.is_char_boundary(at) && matches(rest, &tail[at..]))
        }),
    }
}

/// Values under dotted keys. A table without keys is a value.
fn flat(table: &Table) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) if !inner.is_empty() => {
                all.extend(flat(inner).into_iter().map(|(k, value)| (format!("{key}.{k}"), value)));
            }
            value => drop(all.insert(key.clone(), value.clone())),
        }
    }
    all
}

/// Returns true if a value is the published number, word, list or name of a file.
fn same(has: &Value, value: &Value) -> bool {
    let number = |value: &Value| value.as_float().or(value.as_integer().map(|n| n as f64));
    match (has, value) {
        (Value::Array(has), Value::Array(value)) => {
            has.len() == value.len() && has.iter().zip(value).all(|(a, b)| same(a, b))
        }
        (Value::String(has), Value::String(value)) => {
            has == value || has.ends_with(&format!("/{value}"))
        }
        _ => match (number(has), number(value)) {
            (Some(has), Some(value)) => has == value,
            _ => has == value,
        },
    }
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

fn constants() -> Vec<Sourced> {
    let all: Constants = toml::from_str(include_str!("constants.toml")).expect("it is TOML");
    all.constants
}

/// A scenario file of a paper.
struct File {
    /// Below `scenarios/`.
    name: String,
    /// Keys that it writes, itself or in its base.
    written: BTreeSet<String>,
    /// Its effective values by key.
    effective: BTreeMap<String, Value>,
}

/// All of them, by name.
static FILES: LazyLock<Vec<File>> = LazyLock::new(files);

fn files() -> Vec<File> {
    let read = |path: &Path| -> Table {
        std::fs::read_to_string(path).expect("readable").parse().expect("TOML")
    };
    let mut all = Vec::new();
    for folder in PAPERS {
        for entry in std::fs::read_dir(scenarios().join(folder)).expect("a folder of scenarios") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let own = read(&path);
            let mut written: BTreeSet<String> = flat(&own).into_keys().collect();
            if let Some(base) = own.get("extends").and_then(Value::as_str) {
                written.extend(flat(&read(&path.with_file_name(base))).into_keys());
            }
            let loaded = Scenario::load(&path, &[], &Registry::builtin());
            let scenario = loaded.unwrap_or_else(|error| panic!("{error}")).scenario;
            let effective: Table = scenario.to_effective_toml().parse().expect("TOML");
            let effective = unabridged(flat(&effective));
            let name = path.file_name().expect("a file").to_string_lossy();
            let name = format!("{folder}/{name}");
            all.push(File { name, written, effective });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// With what an effective scenario is silent about where it is as usual; a limit of gradients that is none is 0.
fn unabridged(mut effective: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let word = |effective: &BTreeMap<String, Value>, key: &str| {
        effective.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let registry = Registry::builtin();
    let method = registry.find(&word(&effective, "method.name")).expect("a method");
    let mut usual = vec![
        ("client.epoch_schedule", Value::from("constant")),
        ("client.max_grad_norm", Value::from(method.clip.unwrap_or(0.0))),
    ];
    if word(&effective, "backbone.kind") == "resnet18" {
        usual.push(("backbone.stem", Value::from("small")));
    }
    for (key, value) in usual {
        effective.entry(key.to_owned()).or_insert(value);
    }
    for key in unused(&effective) {
        effective.retain(|name, _| name != key && !name.starts_with(&format!("{key}.")));
    }
    effective
}

/// Keys that an effective scenario has though nothing uses them: of crops that are not drawn, of test images that keep
/// their size, of images that are no files.
fn unused(effective: &BTreeMap<String, Value>) -> Vec<&'static str> {
    let is = |key: &str, word: &str| effective.get(key).and_then(Value::as_str) == Some(word);
    let has = |key: &str| effective.contains_key(key);
    let mut unused = Vec::new();
    if !is("data.train.crop", "random-resized") {
        unused.extend(["data.train.scale", "data.train.ratio"]);
    }
    if !has("data.test.resize") && !has("data.test.squash") {
        unused.push("data.test.interpolation");
    }
    if !is("data.source", "folder") && !is("data.source", "parquet") {
        unused.push("data.stored_size");
    }
    unused
}

#[test]
fn scenario_files_hold_the_published_constants() {
    let constants = constants();
    let mut wrong = Vec::new();
    for File { name: file, effective, .. } in FILES.iter() {
        for sourced in constants.iter().filter(|sourced| sourced.is_about(file)) {
            for (key, value) in flat(&sourced.values) {
                let has = effective.get(&key);
                if !has.is_some_and(|has| same(has, &value)) {
                    let has = has.map_or("nothing".to_owned(), Value::to_string);
                    wrong.push(format!("{file}: {key} is {has}, not {value} ({})", sourced.source));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} constants are not as published:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_constant_of_a_paper_s_scenario_has_a_source() {
    let constants = constants();
    let mut unsourced: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for File { name: file, written, effective } in FILES.iter() {
        let sourced: BTreeSet<String> = constants
            .iter()
            .filter(|sourced| sourced.is_about(file))
            .flat_map(|sourced| flat(&sourced.values).into_keys())
            .collect();
        let decides = |key: &&String| {
            let table = key.split('.').next().unwrap_or_default();
            let is_place = PLACES.iter().any(|place| key.starts_with(place));
            let written = DECIDING.contains(&table) && written.contains(*key);
            let is_left = |left: &&str| {
                let rest = key.strip_prefix(*left);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            !is_place && (table == "method" || written || LEFT.iter().any(is_left))
        };
        for key in effective.keys().filter(decides).filter(|key| !sourced.contains(*key)) {
            unsourced.entry(format!("{key} = {}", effective[key])).or_default().push(file.clone());
        }
    }
    let list: Vec<String> =
        unsourced.iter().map(|(what, files)| format!("{what}: {}", files.join(" "))).collect();
    assert!(list.is_empty(), "{} constants have no source:\n{}", list.len(), list.join("\n"));
}

#[test]
fn keys_that_are_left_to_defaults_are_keys_of_some_file() {
    for left in LEFT {
        let known = FILES.iter().any(|file| file.effective.contains_key(left));
        assert!(known, "{left} is a key of no file");
    }
}

#[test]
fn every_source_is_of_a_file_that_is_there() {
    let files: Vec<&str> = FILES.iter().map(|file| &*file.name).collect();
    for sourced in constants() {
        assert!(!sourced.source.is_empty() && !sourced.values.is_empty(), "{:?}", sourced.files);
        for pattern in sourced.files.iter().chain(&sourced.except) {
            assert!(files.iter().any(|file| matches(pattern, file)), "{pattern} names no file");
        }
    }
}

#[test]
fn a_star_is_any_text() {
    assert!(matches("hgp/*-beta*.toml", "hgp/cub200-beta1.0.toml") && matches("a", "a"));
    assert!(!matches("hgp/*-beta*.toml", "hgp/joint-cub200.toml") && !matches("a*", "ba"));
}
