//! Promises: recorded exchanges are timed again exactly as a run of the changed scenario would be, without
//! training, or refused with the reason; a part of a run can be verified from a checkpoint on.

use std::fs;
use std::path::Path;

use crate::command::{CommandOutput, read, run_fedcast};

const SCENARIO: &str = r#"
schema = 2
data = { source = "digits", subset = 12 }
tasks = { sizes = [4, 3, 3] }
partition = { kind = "dirichlet", beta = 1.0, min_samples = 2 }
backbone = { kind = "pixels" }
method = { name = "fedavg" }
federation = { clients = 6, rounds = 4 }
participation = { kind = "fraction", fraction = 0.5 }
client = { epochs = 1, batch_size = 16 }
time = { preset = "cross-silo", ms_per_sample = 5 }
links = { preset = "cross-silo", loss_rate = 0.1 }
faults = [{ kind = "crash", when = "while", rate = 0.1 }, { kind = "corrupt", direction = "up", rate = 0.1 }]
record = { checkpoint = { keep = 100, max_time_fraction = 1.0 } }
"#;

const TABLES: [&str; 4] = ["rounds.csv", "bytes.csv", "clients.csv", "matrix.csv"];

fn recorded(folder: &Path, more: &[&str]) {
    fs::write(folder.join("a.toml"), SCENARIO).unwrap();
    let run = run_fedcast(folder, &[&["run", "a.toml", "-q", "-o", "run"], more].concat());
    assert_eq!(run.code, 0, "{}", run.err);
}

fn digests(folder: &Path, run: &str) -> serde_json::Value {
    let manifest = read(folder.join(run).join("manifest.json"));
    serde_json::from_str::<serde_json::Value>(&manifest).unwrap()["digests"].clone()
}

fn what_if(folder: &Path, set: &[&str]) -> CommandOutput {
    run_fedcast(folder, &[&["replay", "run", "--format", "json", "-o", "retimed"], set].concat())
}

/// What-if with these overrides equals a run with them: every table, both digests.
#[track_caller]
fn as_a_run(folder: &Path, set: &[&str]) {
    let _ = fs::remove_dir_all(folder.join("retimed"));
    let output = what_if(folder, set);
    assert_eq!(output.code, 0, "{set:?}: {}", output.err);
    let real =
        run_fedcast(folder, &[&["run", "a.toml", "-q", "-o", "real", "--force"], set].concat());
    assert_eq!(real.code, 0, "{set:?}: {}", real.err);
    for table in TABLES {
        let of = |run: &str| read(folder.join(run).join(table));
        assert!(of("retimed") == of("real"), "{set:?}: {table}");
    }
    let document: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(document["digests"], digests(folder, "real"), "{set:?}");
}

#[test]
fn other_links_and_speeds_give_the_times_that_a_run_would_have() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, &[]);
    let same = what_if(folder, &["--set", "time.ms_per_sample=5"]);
    let same: serde_json::Value = serde_json::from_str(&same.out).unwrap();
    assert_eq!(same["recorded"], same["retimed"], "identical settings, identical times");
    let rounds = same["rounds"].as_array().unwrap();
    assert!(!rounds.is_empty());
    assert!(rounds.iter().all(|round| round["recorded_s"] == round["retimed_s"]), "{rounds:?}");
    assert_eq!(same["digests"], digests(folder, "run"));
    as_a_run(folder, &["--set", "time.preset=mobile", "--set", "links.preset=mobile"]);
    as_a_run(folder, &["--set", "time.ms_per_sample=80", "--set", "links.server_up_mb_per_s=0.02"]);
    // A deadline that no client misses.
    as_a_run(folder, &["--set", "round={close=\"deadline\",deadline_s=1000}"]);
}

#[test]
fn what_would_change_the_learning_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, &[]);
    for (set, why) in [
        ("method.train=head", "`method` affects training"),
        ("federation.rounds=5", "`federation` affects training"),
        ("seed.run=2", "`seed` affects training"),
        ("preset=mobile", "set time.preset and links.preset"),
        ("round={close=\"deadline\",deadline_s=0.02}", "would close without participant"),
        ("round={close=\"buffer\",buffer_size=2}", "would"),
        ("links.loss_rate=0.6", "would"),
    ] {
        let output = run_fedcast(folder, &["replay", "run", "--set", set]);
        assert!(output.code == 2 || output.code == 3, "{set}: {}", output.err);
        assert!(output.err.contains(why), "{set}: {}", output.err);
    }
    let own = run_fedcast(folder, &["replay", "run", "--set", "time.preset=mobile", "-o", "run"]);
    assert_eq!(own.code, 2, "{}", own.err);
}

#[test]
fn a_part_of_a_run_is_verified_from_a_checkpoint_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, &[]);
    let verify = |round: &str| {
        run_fedcast(
            folder,
            &["replay", "run", "--verify", "-q", "--from-round", round, "--workers", "3"],
        )
    };
    let late = verify("9");
    assert_eq!(late.code, 0, "{}", late.err);
    assert!(late.err.contains("computing from after round 8"), "{}", late.err);
    assert!(late.out.contains("before the checkpoint"), "{}", late.out);
    let first = verify("1");
    assert_eq!(first.code, 0, "{}", first.err);
    assert!(first.err.contains("all rounds are computed"), "{}", first.err);
}

/// The report of a difference: what was before, both entries, both values, the streams behind them.
#[test]
fn a_divergence_names_both_values_and_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, &[]);
    let scenario = folder.join("run/scenario.effective.toml");
    let text = read(&scenario);
    let changed = text.replacen("\nlr = 0.001", "\nlr = 0.002", 1);
    assert_ne!(text, changed);
    fs::write(&scenario, changed).unwrap();
    let output = run_fedcast(folder, &["replay", "run", "--verify", "-q", "--workers", "1"]);
    assert_eq!(output.code, 10, "{}", output.err);
    let report = output.err;
    let before = report.lines().filter(|line| line.starts_with("    {")).count();
    assert!((1..=10).contains(&before), "{report}");
    assert!(report.contains("differs from the recorded one at entry"), "{report}");
    assert!(report.contains("  - {\"seq\"") && report.contains("  + {\"seq\""), "{report}");
    assert!(report.contains("\n  value:  numbers."), "{report}");
    assert!(
        report.contains("\n  stream: shuffle,augment,dropout,method/task=0/round=0/client="),
        "{report}"
    );
}

/// Errors that point into the recorded scenario name its file and advise what can be done: it is never edited.
#[test]
fn a_key_that_lacks_its_place_then_is_advised_away_with_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder, &["--set", "round={close=\"quorum\",quorum=0.5}"]);
    let file = read(folder.join("run/scenario.effective.toml"));
    let line = 1 + file.lines().position(|line| line == "quorum = 0.5").expect("it is written");
    for words in [vec!["replay", "run"], vec!["fork", "run", "--after-task", "1"]] {
        let output = run_fedcast(folder, &[&words[..], &["--set", "round.close=all"]].concat());
        assert_eq!(output.code, 3, "{}", output.err);
        let place = format!("--> run/scenario.effective.toml:{line}:1");
        assert!(output.err.contains(&place), "{}", output.err);
        assert!(
            output.err.contains("replace its table: --set 'round={close=\"all\"}'"),
            "{}",
            output.err
        );
    }
    let output = run_fedcast(folder, &["replay", "run", "--set", "round={close=\"all\"}"]);
    assert_ne!(output.code, 3, "{}", output.err);
    let output = run_fedcast(
        folder,
        &["fork", "run", "--after-task", "1", "--set", "client.optimizer.kind=sgd"],
    );
    assert_eq!(output.code, 3, "{}", output.err);
    assert!(output.err.contains("--set 'client.optimizer={kind=\"sgd\""), "{}", output.err);
}
