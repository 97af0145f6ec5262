//! Promises: a run that is killed anywhere goes on from its last checkpoint and ends as if it had not
//! been; a damaged checkpoint costs rounds, never the run.

mod damaged;
#[cfg(unix)]
mod killed;

use std::path::Path;

use crate::command::read;

/// Files that are equal however often a run was killed.
const FILES: [&str; 9] = [
    "events.jsonl",
    "rounds.csv",
    "rounds.jsonl",
    "bytes.csv",
    "clients.csv",
    "matrix.csv",
    "classes.csv",
    "participation.csv",
    "partition.csv",
];

/// A run that takes a moment: logistic regression on a few digits, in 3 x 8 rounds.
const LOGISTIC: &str = r#"
schema = 2
data = { source = "digits", subset = 12 }
tasks = { sizes = [4, 3, 3] }
partition = { kind = "dirichlet", beta = 1.0, min_samples = 2 }
backbone = { kind = "pixels" }
method = { name = "fedavg" }
federation = { clients = 6, rounds = 8 }
client = { epochs = 1, batch_size = 16 }
time = { preset = "mobile", ms_per_sample = 30 }
links = { preset = "mobile", loss_rate = 0.02 }
record = { checkpoint = { every = "round", max_time_fraction = 1.0 } }
"#;

/// Everything in a run's directory that is a result.
fn results(run: &Path) -> Vec<(String, String)> {
    let mut results: Vec<(String, String)> =
        FILES.iter().map(|name| ((*name).to_string(), read(run.join(name)))).collect();
    let json =
        |name: &str| -> serde_json::Value { serde_json::from_str(&read(run.join(name))).unwrap() };
    let mut summary = json("summary.json");
    summary.as_object_mut().unwrap().remove("wall");
    let manifest = json("manifest.json");
    results.push(("summary.json".into(), summary.to_string()));
    let end = format!("{} {} {}", manifest["status"], manifest["events"], manifest["digests"]);
    results.push(("manifest.json".into(), end));
    results
}

#[track_caller]
fn same_results(one: &Path, other: &Path) {
    for ((name, one), (_, other)) in results(one).into_iter().zip(results(other)) {
        assert!(one == other, "{name}");
    }
}
