//! Promise: a restart of the server is reported, counted, verified and replayed with other times.

use serde_json::Value;

use crate::command::{read, run_fedcast};

const SCENARIO: &str = r#"
schema = 2
data = { source = "digits", subset = 8 }
tasks = { sizes = [5, 5] }
partition = { kind = "capped", beta = 1.0, min_samples = 2 }
method = { name = "fedavg", train = "head" }
federation = { clients = 4, rounds = 3 }
client = { epochs = 1, batch_size = 16 }
time = { preset = "mobile" }
links = { preset = "mobile" }

[[faults]]
kind = "server-restart"
rounds = [2, 4]
after_s = 0.1
downtime_s = 30
"#;

#[test]
fn the_program_reports_and_verifies_restarts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("restart.toml"), SCENARIO).unwrap();
    let output = run_fedcast(folder.path(), &["run", "restart.toml", "-q", "-o", "run"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.out.contains("server      2 restarts"), "{}", output.out);
    let summary = read(folder.path().join("run/summary.json"));
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["restarts"], 2);
    let rounds = read(folder.path().join("run/rounds.csv"));
    let rows: Vec<Vec<&str>> = rounds.lines().map(|line| line.split(',').collect()).collect();
    let aggregated = rows[0].iter().position(|name| *name == "aggregated").unwrap();
    let aggregated: Vec<&str> = rows[1..].iter().map(|row| row[aggregated]).collect();
    assert_eq!(aggregated, ["4", "0", "4", "0", "4", "4"]);
    let replayed = run_fedcast(folder.path(), &["replay", "run", "--verify", "-q"]);
    assert_eq!(replayed.code, 0, "{}{}", replayed.out, replayed.err);
    // On slower links other updates are lost with the round, which learns nothing all the same; a round that is
    // over before the server is lost learns.
    let slower = ["replay", "run", "--set", "links.up_mb_per_s=0.001"];
    let slower = run_fedcast(folder.path(), &slower);
    assert_eq!(slower.code, 0, "{}{}", slower.out, slower.err);
    let faster = ["replay", "run", "--set", "links.preset=ideal", "--set", "time.preset=ideal"];
    let faster = run_fedcast(folder.path(), &faster);
    assert!(faster.code != 0 && faster.err.contains("other updates"), "{}", faster.err);
}
