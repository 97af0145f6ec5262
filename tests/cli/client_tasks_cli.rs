//! Promises about tasks of a client's own, from the outside: a run, its replay, its verification and its times over
//! other links say the same of client tasks, the tables have them with and without the client task known, and forward
//! transfer is measured against the table of another run.

use std::fs;
use std::path::Path;

use crate::command::{CommandOutput, read, run_fedcast};

const SCENARIO: &str = r#"
schema = 2
preset = "mobile"
data = { source = "digits", subset = 20 }
tasks = { count = 3, arrival = "client-tasks", classes_per_client_task = 4 }
partition = { kind = "slices" }
backbone = { kind = "pixels" }
method = { name = "fedavg" }
federation = { clients = 5, rounds = 2 }
client = { epochs = 2, batch_size = 16 }
links = { preset = "mobile", loss_rate = 0 }
"#;

const TABLES: [&str; 5] =
    ["rounds.csv", "bytes.csv", "clients.csv", "matrix.csv", "client_tasks.csv"];

fn run(folder: &Path, out: &str, more: &[&str]) -> CommandOutput {
    fs::write(folder.join("a.toml"), SCENARIO).unwrap();
    let output = run_fedcast(folder, &[&["run", "a.toml", "-q", "-o", out], more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    output
}

#[track_caller]
fn same_tables(folder: &Path, one: &str, other: &str) {
    for table in TABLES {
        let of = |run: &str| read(folder.join(run).join(table));
        assert!(of(one) == of(other), "{table}");
    }
}

fn summary(folder: &Path, run: &str) -> serde_json::Value {
    serde_json::from_str(&read(folder.join(run).join("summary.json"))).unwrap()
}

#[test]
fn replay_and_verification_agree_on_client_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = run(folder, "run", &[]);
    for line in ["after stage 3", "Avg (mean over client tasks", "FT (against tasks trained alone)"]
    {
        assert!(output.out.contains(line), "{}", output.out);
    }
    let replayed = run_fedcast(folder, &["replay", "run", "-o", "again"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    same_tables(folder, "run", "again");
    let verified = run_fedcast(folder, &["replay", "run", "--verify", "-q", "--workers", "1"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    // Who moves does not depend on clocks.
    let slower = ["--set", "time.ms_per_sample=50"];
    let retimed = run_fedcast(folder, &[&["replay", "run", "-o", "retimed"], &slower[..]].concat());
    assert_eq!(retimed.code, 0, "{}", retimed.err);
    run(folder, "slow", &slower);
    same_tables(folder, "retimed", "slow");
}

#[test]
fn client_tasks_are_tested_from_their_begin_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, "run", &[]);
    let (mut started, mut finished) = ([0; 3], 0);
    let table = read(folder.join("run/client_tasks.csv"));
    let explained = fedcast::report::dictionary::file("client_tasks.csv").unwrap().columns;
    let names: Vec<&str> = explained.iter().map(|column| column.name).collect();
    assert_eq!(table.lines().next().unwrap(), names.join(","));
    for line in table.lines().skip(1) {
        let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let [after_task, stage, _, done, til, cil, images, ..] = cells[..] else {
            panic!("{line}")
        };
        assert!(stage <= after_task && cil <= til && til <= images && images > 0.0, "{line}");
        started[after_task as usize - 1] += 1;
        finished += done as usize;
    }
    assert_eq!((started, finished), ([5, 7, 9], 9));
    let client_tasks = &summary(folder, "run")["client_tasks"];
    assert_eq!(client_tasks["points"].as_array().unwrap().len(), 3);
    let figure = |kind: &str, name: &str| client_tasks[kind][name].as_f64().unwrap();
    assert!(figure("til", "avg") >= figure("cil", "avg") && figure("cil", "aia") > 0.0);
    assert!(client_tasks["til"]["ft"].is_null());
}

#[test]
fn tests_with_the_client_task_known_only_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = run(folder, "known", &["--set", "record.client_tasks=\"known\""]);
    assert!(output.out.starts_with("a: ") && output.out.contains("accuracy % (task known)"));
    let client_tasks = &summary(folder, "known")["client_tasks"];
    assert!(client_tasks["til"]["avg"].as_f64().unwrap() > 0.0 && client_tasks["cil"].is_null());
    let table = read(folder.join("known/client_tasks.csv"));
    assert!(table.lines().skip(1).all(|line| line.ends_with(',')), "{table}");
    let verified = run_fedcast(folder, &["replay", "known", "--verify", "-q"]);
    assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
    let replayed = run_fedcast(folder, &["replay", "known", "-o", "again"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    same_tables(folder, "known", "again");
}

/// Against itself a run has no forward transfer; the published script compares other client tasks at the end.
#[test]
fn forward_transfer_is_measured_against_the_table_of_another_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, "alone", &[]);
    let direct = ["--set", "record.single_task=alone/client_tasks.csv"];
    let output = run(folder, "run", &direct);
    let client_tasks = &summary(folder, "run")["client_tasks"];
    assert_eq!(client_tasks["til"]["ft"], 0.0);
    assert!(client_tasks["til"]["ft_script"].as_f64().unwrap() != 0.0);
    assert!(
        client_tasks["cil"]["ft"].as_f64().unwrap() < 0.0,
        "without the client task known it is harder"
    );
    assert_eq!(summary(folder, "alone")["digests"], summary(folder, "run")["digests"]);
    // A replay finds the table, too, and does without it.
    let replayed = run_fedcast(folder, &["replay", "run"]);
    let line = |text: &str| text.lines().find(|line| line.starts_with("FT")).map(str::to_owned);
    assert!(line(&output.out).is_some() && line(&output.out) == line(&replayed.out));
    fs::rename(folder.join("alone"), folder.join("gone")).unwrap();
    let replayed = run_fedcast(folder, &["replay", "run"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    assert!(line(&replayed.out).is_some_and(|line| line.contains('·')));
    for (set, why) in [
        ("record.single_task=gone/matrix.csv", "no column `stage`"),
        ("record.single_task=nowhere.csv", "cannot read"),
    ] {
        let output = run_fedcast(folder, &["check", "a.toml", "--set", set]);
        assert!(output.code == 3 && output.err.contains(why), "{}{}", output.out, output.err);
    }
}

/// The table that `fedcast single-task` writes, with some keys changed.
fn alone(folder: &Path, more: &[&str]) -> String {
    fs::write(folder.join("a.toml"), SCENARIO).unwrap();
    let output = run_fedcast(
        folder,
        &[&["single-task", "a.toml", "-q", "-o", "single-task.csv"], more].concat(),
    );
    assert_eq!(output.code, 0, "{}", output.err);
    read(folder.join("single-task.csv"))
}

/// A single client task is trained in rounds of its own client; other rounds, clients and tasks do not affect it.
#[test]
fn a_client_task_alone_is_one_round_of_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let table = alone(folder, &[]);
    assert_eq!(table.lines().count(), 1 + 9, "{table}");
    assert_eq!(alone(folder, &["--set", "federation.rounds=5", "--workers", "1"]), table);
    assert_ne!(alone(folder, &["--set", "client.epochs=3"]), table);
    // Other clients move; the client tasks of the first stage are what they were.
    let more = alone(folder, &["--set", "tasks.switch_fraction=1.0"]);
    assert!(more.lines().count() == 1 + 15 && more.lines().take(6).eq(table.lines().take(6)));
    // A federation of one client that has one client task is nothing else.
    let one = ["--set", "federation.clients=1", "--set", "federation.rounds=1"];
    let one = [&one[..], &["--set", "tasks.count=1", "--set", "preset=ideal"]].concat();
    let table = alone(folder, &one);
    run(folder, "one", &one);
    let client_tasks = read(folder.join("one/client_tasks.csv"));
    let own = |text: &str| {
        let columns: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let place = columns.iter().position(|name| *name == "accuracy_til").unwrap();
        text.lines().nth(1).unwrap().split(',').nth(place).unwrap().parse::<f64>().unwrap()
    };
    assert_eq!(own(&table), own(&client_tasks), "{table}{client_tasks}");
    assert!(own(&table) > 0.0, "{table}");
    // Tasks that all clients share cannot be learned by one client alone.
    let global_tasks = ["--set", "tasks={count=2}", "--set", "partition={kind=\"iid\"}"];
    let output = run_fedcast(folder, &[&["single-task", "a.toml"], &global_tasks[..]].concat());
    assert!(
        output.code == 3 && output.err.contains("all clients share the tasks"),
        "{}",
        output.err
    );
}

#[test]
fn run_trains_its_client_tasks_alone_first() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = run(folder, "with", &["--single-task"]);
    run(folder, "without", &[]);
    assert_eq!(read(folder.join("with-single-task.csv")), alone(folder, &[]));
    let client_tasks = &summary(folder, "with")["client_tasks"]["til"];
    assert!(
        client_tasks["ft"].as_f64().is_some() && client_tasks["tt"].as_f64().is_some(),
        "{client_tasks}"
    );
    assert!(summary(folder, "without")["client_tasks"]["til"]["ft"].is_null());
    assert_eq!(summary(folder, "with")["digests"], summary(folder, "without")["digests"]);
    let replayed = run_fedcast(folder, &["replay", "with"]);
    let line = |text: &str| text.lines().find(|line| line.starts_with("FT")).map(str::to_owned);
    assert!(line(&output.out).is_some_and(|line| !line.contains('·')), "{}", output.out);
    assert_eq!(line(&output.out), line(&replayed.out));
}

/// A cell of a study trains its client tasks alone where the study says so; a cell without client tasks has none to
/// train.
#[test]
fn a_study_measures_forward_transfer() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.toml"), SCENARIO).unwrap();
    let study = "schema = 2\nbase = \"a.toml\"\nreplicates = 1\n[axes.tasks]\nown = {}\n\
                 common = { tasks = { count = 2 }, partition = { kind = \"iid\" } }\n\
                 [compare]\nbaseline = { tasks = \"own\" }\nmetrics = [\"ft\", \"tt\"]\n[run]\nsingle_task = true\n";
    fs::write(folder.join("s.study.toml"), study).unwrap();
    let output = run_fedcast(folder, &["study", "s.study.toml", "-q", "-o", "out"]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    let one = run(folder, "alone", &["--single-task", "--seed", "1"]);
    assert_eq!(one.code, 0);
    let ft = |path: &str| summary(folder, path)["client_tasks"]["til"]["ft"].clone();
    let of_cell = ft("out/tasks=own/seed-1");
    assert!(of_cell.is_number() && of_cell == ft("alone"), "{of_cell}");
    assert!(read(folder.join("out/cells.csv")).lines().next().unwrap().contains(",ft,"));
    assert!(!folder.join("out/tasks=common/seed-1-single-task.csv").exists());
}
