//! Promise: units and load clients are a matter of the federation. Units act for themselves in
//! their phases only; load clients cost what clients cost and change no result; the journal, the
//! ledger and the tables say which is which; and a plan counts them to the byte.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::command::{read, run_fedcast};
use serde_json::Value;

fn staged() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/staged.toml");
    path.to_str().unwrap().to_string()
}

/// A finished run.
struct Run {
    folder: tempfile::TempDir,
}

impl Run {
    fn new(set: &[&str], more: &[&str]) -> Run {
        let folder = tempfile::tempdir().unwrap();
        let scenario = staged();
        let mut arguments = vec!["run", &scenario, "-q", "-o", "run"];
        set.iter().for_each(|set| arguments.extend(["--set", set]));
        arguments.extend(more);
        let output = run_fedcast(folder.path(), &arguments);
        assert_eq!(output.code, 0, "{}", output.err);
        Run { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("run").join(name)
    }

    fn summary(&self) -> Value {
        serde_json::from_str(&read(self.file("summary.json"))).unwrap()
    }

    fn entries(&self) -> Vec<Value> {
        let text = read(self.file("events.jsonl"));
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn events(&self, name: &str) -> Vec<Value> {
        let of = |entry: &Value| entry["event"]["type"] == name;
        self.entries().into_iter().filter(of).collect()
    }

    /// Digests of the server after every round.
    fn servers(&self) -> Vec<String> {
        let closed = self.events("round_closed");
        closed.iter().map(|entry| entry["numbers"]["digest"].to_string()).collect()
    }
}

fn plan(set: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let scenario = staged();
    let mut arguments = vec!["plan", &scenario, "--format", "json"];
    set.iter().for_each(|set| arguments.extend(["--set", set]));
    let output = run_fedcast(folder.path(), &arguments);
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(&output.out).unwrap()
}

#[test]
fn a_staged_run_with_units_load_and_assets_sends_and_takes_what_was_planned() {
    for set in [&[][..], &["wire.asset_cache=\"run\"", "federation.load_clients=0"]] {
        let (run, plan) = (Run::new(set, &[]), plan(set));
        let summary = run.summary();
        for way in ["down", "up"] {
            let ran = &summary["bytes"][way]["delivered"]["bytes"];
            assert_eq!(*ran, plan["total"][way], "{way} of {set:?}");
        }
        let participants: Vec<u64> = run
            .events("round_opened")
            .iter()
            .map(|e| e["event"]["participants"].as_u64().unwrap())
            .collect();
        let planned = plan["phases"].as_array().unwrap();
        let planned: u64 =
            planned.iter().map(|phase| phase["participants"].as_u64().unwrap()).sum();
        assert_eq!(participants.iter().sum::<u64>(), planned);
        let (ran, planned) = (&summary["virtual_s"], &plan["total"]["virtual_s"]);
        let difference = ran.as_f64().unwrap() - planned.as_f64().unwrap();
        assert!(difference.abs() < 1e-6, "{ran} s against {planned} s");
    }
}

#[test]
fn load_clients_change_no_result_and_are_marked() {
    let (with, without) = (Run::new(&[], &[]), Run::new(&["federation.load_clients=0"], &[]));
    assert_eq!(with.servers(), without.servers());
    assert_eq!(with.summary()["accuracy"], without.summary()["accuracy"]);
    let load: Vec<Value> = with
        .events("frame_charged")
        .into_iter()
        .filter(|entry| entry["event"]["kind"] == "load_client")
        .collect();
    let clients: BTreeSet<u64> =
        load.iter().map(|entry| entry["event"]["client"].as_u64().unwrap()).collect();
    assert_eq!(clients, BTreeSet::from([3, 4]));
    let bytes = |run: &Run| run.summary()["bytes"]["up"]["delivered"]["bytes"].as_u64().unwrap();
    let frame = |entry: &Value| {
        let bytes = &entry["event"]["bytes"];
        ["header", "meta", "table", "payload"]
            .iter()
            .map(|p| bytes[p].as_u64().unwrap())
            .sum::<u64>()
    };
    let up: u64 = load.iter().filter(|e| e["event"]["direction"] == "up").map(frame).sum();
    assert_eq!(bytes(&with) - bytes(&without), up);
    // They never train, and nothing waits for what they do not send.
    assert!(
        with.events("client_trained").iter().all(|e| e["event"]["client"].as_u64().unwrap() < 3)
    );
    let missing = with.events("round_closed");
    assert!(missing.iter().all(|e| e["event"]["missing"].as_array().unwrap().is_empty()));
    let table = read(with.file("clients.csv"));
    let kinds: Vec<&str> =
        table.lines().skip(1).map(|row| row.split(',').nth(1).unwrap()).collect();
    assert_eq!(kinds, ["client", "client", "client", "load_client", "load_client"]);
    assert!(with.summary()["load_clients"]["frames"].as_u64().unwrap() > 0);
}

#[test]
fn units_act_in_their_phase_only_and_hold_all_samples_together() {
    let run = Run::new(&["federation.load_clients=0"], &[]);
    let trained = run.events("client_trained");
    let samples = |phase: u64| -> (u64, usize) {
        let of = |e: &&Value| e["event"]["phase"] == phase && e["event"]["task"] == 0;
        let all: Vec<u64> =
            trained.iter().filter(of).map(|e| e["event"]["samples"].as_u64().unwrap()).collect();
        (all.iter().sum(), all.len())
    };
    let ((train, participants), (statistics, units)) = (samples(0), samples(1));
    assert_eq!(
        (participants, units),
        (2 * 3, 3 * 5),
        "two rounds of three; three times five units"
    );
    assert_eq!(train, 2 * statistics);
    let frames = run.events("frame_charged");
    let of_units = frames.iter().filter(|e| e["event"]["kind"] == "dummy_client");
    assert!(of_units.clone().count() > 0);
    assert!(of_units.into_iter().all(|e| e["event"]["phase"] == 1 || e["event"]["task"] != 0));
}

/// The card's invariant 7: after the first stage nothing trains.
#[test]
fn after_the_first_stage_no_parameter_changes() {
    let run = Run::new(&[], &[]);
    let closed = run.events("round_closed");
    let hashes: Vec<f64> =
        closed.iter().filter_map(|e| e["numbers"]["metrics"]["features_hash"].as_f64()).collect();
    // The last round of the first stage freezes; three rounds of statistics follow.
    assert_eq!(hashes.len(), 4);
    assert!(hashes.iter().all(|hash| *hash == hashes[0] && *hash > 0.0));
    let error = run.summary()["server_metrics"]["gram_error"].as_f64().unwrap();
    assert!(error > 0.0 && error < 1.0, "{error}");
}

#[test]
fn results_do_not_depend_on_the_workers() {
    let digests =
        |workers: &str| Run::new(&[], &["--workers", workers]).summary()["digests"].clone();
    assert_eq!(digests("1"), digests("3"));
}

/// A method without statistics trains on the parts; the effective scenario says so.
#[test]
fn parts_act_in_the_training_of_a_method_without_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let count = ["--set", "federation.dummy_clients.count=2"];
    let phases = |run: &str| {
        let text = read(folder.path().join(run).join("scenario.effective.toml"));
        let scenario: toml::Table = text.parse().unwrap();
        scenario["federation"].get("dummy_clients").map(|units| units["phases"].to_string())
    };
    crate::arms::run(folder.path(), "whole", crate::arms::HEAD, 1, &[]);
    crate::arms::run(folder.path(), "parts", crate::arms::HEAD, 1, &count);
    crate::arms::run(folder.path(), "stsa", crate::arms::STSA, 1, &count);
    assert_eq!(phases("whole"), None);
    assert_eq!(phases("parts").as_deref(), Some("[\"train\"]"));
    assert_eq!(phases("stsa").as_deref(), Some("[\"statistics\"]"));
    let trained = |run: &str| {
        let text = read(folder.path().join(run).join("events.jsonl"));
        text.matches("\"type\":\"client_trained\"").count()
    };
    assert_eq!(trained("parts"), 2 * trained("whole"));
    // No phase at all is no mistake of the method, and a note says what it does.
    let staged = staged();
    let none = ["check", &staged, "--set", "federation.dummy_clients.phases=[]"];
    let output = run_fedcast(folder.path(), &none);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.err.contains("federation.dummy_clients.phases is empty"), "{}", output.err);
}

#[test]
fn a_phase_that_does_not_exist_is_found_at_check() {
    let folder = tempfile::tempdir().unwrap();
    let set = "federation.dummy_clients.phases=[\"statistic\"]";
    let output = run_fedcast(folder.path(), &["check", &staged(), "--set", set]);
    assert_eq!(output.code, 3);
    assert!(output.err.contains("has no phase `statistic`"), "{}", output.err);
    let help = "its phases: federation.dummy_clients.phases = [\"statistics\", \"train\"]";
    assert!(output.err.contains(help), "{}", output.err);
}
