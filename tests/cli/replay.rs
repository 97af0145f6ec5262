//! A recorded run can be rendered again without compute, and computed again to the same bits.

use std::fs;

use crate::command::{read, run_fedcast, tiny_run};

const TABLES: [&str; 8] = [
    "rounds.csv",
    "rounds.jsonl",
    "bytes.csv",
    "clients.csv",
    "matrix.csv",
    "classes.csv",
    "participation.csv",
    "partition.csv",
];

#[test]
fn a_run_replays_to_the_same_tables_and_verifies_with_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let run = tiny_run(folder.path(), &["--workers", "2"]);
    assert_eq!(run.code, 0, "{}", run.err);

    let replayed = run_fedcast(folder.path(), &["replay", "run", "-o", "again"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    for table in TABLES {
        assert_eq!(
            read(folder.path().join("run").join(table)),
            read(folder.path().join("again").join(table)),
            "{table}"
        );
    }
    let without_walls = |text: &str| -> Vec<String> {
        let others = ["wall", "by task:", "event loop:", "peak memory", "directory"];
        let facts = |line: &&str| !others.iter().any(|word| line.trim_start().starts_with(word));
        text.lines().filter(facts).map(str::to_string).collect()
    };
    assert_eq!(without_walls(&run.out), without_walls(&replayed.out));

    let verified =
        run_fedcast(folder.path(), &["replay", "run", "--verify", "-q", "--workers", "1"]);
    assert_eq!(verified.code, 0, "{}", verified.err);
    let manifest: serde_json::Value =
        serde_json::from_str(&read(folder.path().join("run/manifest.json"))).unwrap();
    assert_eq!(manifest["status"], "done");
    for digest in ["events", "numbers"] {
        let digest = manifest["digests"][digest].as_str().unwrap();
        assert!(verified.out.contains(digest), "{digest}\n{}", verified.out);
    }
}

#[test]
fn the_effective_scenario_runs_to_the_same_digests() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tiny_run(folder.path(), &["--seed", "3"]).code, 0);
    let again = run_fedcast(
        folder.path(),
        &["run", "run/scenario.effective.toml", "-q", "-o", "again", "--workers", "3"],
    );
    assert_eq!(again.code, 0, "{}", again.err);
    let manifest = |name: &str| -> serde_json::Value {
        let path = folder.path().join(name).join("manifest.json");
        serde_json::from_str(&read(path)).unwrap()
    };
    let (first, second) = (manifest("run"), manifest("again"));
    assert_eq!(first["digests"], second["digests"]);
    assert_eq!(first["scenario"]["hash"], second["scenario"]["hash"]);
    assert_eq!(first["seeds"]["run"], 3);
}

#[test]
fn a_changed_journal_is_distinguished_from_a_different_run() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tiny_run(folder.path(), &[]).code, 0);
    let events = folder.path().join("run/events.jsonl");
    let whole = read(&events);

    // A digit changed by hand breaks the seal.
    fs::write(&events, whole.replacen("\"samples\":", "\"samples\":1", 1)).unwrap();
    let damaged = run_fedcast(folder.path(), &["replay", "run"]);
    assert_eq!(damaged.code, 12, "{}", damaged.err);
    assert!(damaged.err.contains("damaged"), "{}", damaged.err);

    // A journal without its end is shown as far as it goes.
    let half: String = whole.lines().take(20).map(|line| format!("{line}\n")).collect();
    fs::write(&events, half).unwrap();
    let cut = run_fedcast(folder.path(), &["replay", "run"]);
    assert_eq!(cut.code, 12, "{}", cut.err);
    assert!(cut.err.contains("after 20 entries"), "{}", cut.err);
    assert!(cut.out.contains("The run has not ended."), "{}", cut.out);

    // Another seed makes another run: both lines are shown.
    fs::write(&events, &whole).unwrap();
    let scenario = folder.path().join("run/scenario.effective.toml");
    fs::write(&scenario, read(&scenario).replacen("run = 1", "run = 2", 1)).unwrap();
    let other = run_fedcast(folder.path(), &["replay", "run", "--verify", "-q"]);
    assert_eq!(other.code, 10, "{}", other.err);
    assert!(other.err.contains("differs from the recorded one at entry 0"), "{}", other.err);
    assert!(other.err.contains("  - {\"seq\":0") && other.err.contains("  + {\"seq\":0"));
}

#[test]
fn a_different_number_is_found_where_it_first_occurs() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tiny_run(folder.path(), &[]).code, 0);
    let scenario = folder.path().join("run/scenario.effective.toml");
    let text = read(&scenario);
    let changed = text.replacen("\nlr = 0.001", "\nlr = 0.002", 1);
    assert_ne!(text, changed, "the scenario has a learning rate");
    fs::write(&scenario, changed).unwrap();
    let other = run_fedcast(folder.path(), &["replay", "run", "--verify", "-q"]);
    assert_eq!(other.code, 10, "{}", other.err);
    let lines: Vec<&str> = other.err.lines().collect();
    let recorded = lines.iter().find(|line| line.starts_with("  - ")).unwrap();
    assert!(recorded.contains("\"client_trained\""), "training differs first: {}", other.err);
    assert!(lines.iter().filter(|line| line.starts_with("    {")).count() <= 10);
}

#[test]
fn tables_are_never_written_over_those_of_another_run_or_program() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tiny_run(folder.path(), &[]).code, 0);
    let at = |name: &str| folder.path().join(name);
    for other in ["other", "site"] {
        fs::create_dir(at(other)).unwrap();
        fs::write(at(other).join("bytes.csv"), "mine").unwrap();
    }
    fs::write(at("site/manifest.json"), "{}").unwrap();
    let manifest = read(at("run/manifest.json")).replacen("\"run\": 1", "\"run\": 2", 1);
    fs::write(at("other/manifest.json"), manifest).unwrap();
    for (other, why) in [("other", "holds another run"), ("site", "is not of a run")] {
        let output = run_fedcast(folder.path(), &["replay", "run", "-o", other]);
        assert_eq!(output.code, 2, "{}", output.err);
        assert!(output.err.contains(why), "{}", output.err);
        assert_eq!(read(at(other).join("bytes.csv")), "mine");
    }
    assert_eq!(run_fedcast(folder.path(), &["replay", "run", "-o", "run"]).code, 0);
    let lock = fs::File::options().write(true).open(at("run/run.lock")).unwrap();
    lock.lock().unwrap();
    let output = run_fedcast(folder.path(), &["replay", "run", "-o", "run"]);
    assert_eq!(output.code, 2, "{}", output.err);
}

/// Seconds of `rounds.csv` in these columns, round by round.
fn seconds<const N: usize>(rounds: &str, columns: [&str; N]) -> Vec<[f64; N]> {
    let mut reader = csv::Reader::from_reader(rounds.as_bytes());
    let head = reader.headers().unwrap().clone();
    let at = columns.map(|name| head.iter().position(|column| column == name).expect(name));
    let rows = reader.records().map(|row| {
        let row = row.unwrap();
        at.map(|at| row[at].parse().unwrap())
    });
    rows.collect()
}

/// Parts of virtual time: the four parts add up to every round, and all of them to the run.
#[test]
fn virtual_time_is_split_into_work_links_waiting_and_server() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let parts = ["duration_s", "work_s", "links_s", "waiting_s", "server_s"];
    let run = |sets: &[&str]| {
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
        let output = tiny_run(folder, &[&sets[..], &["--force"]].concat());
        assert_eq!(output.code, 0, "{}", output.err);
        let rows = seconds(&read(folder.join("run/rounds.csv")), parts);
        for [whole, work, links, waiting, server] in &rows {
            assert!((work + links + waiting + server - whole).abs() < 1e-8, "{rows:?}");
            assert!([work, links, waiting, server].iter().all(|part| **part >= 0.0), "{rows:?}");
        }
        let summary: serde_json::Value =
            serde_json::from_str(&read(folder.join("run/summary.json"))).unwrap();
        let number = |name: &str| summary.pointer(name).unwrap().as_f64().unwrap();
        let all = ["work_s", "links_s", "waiting_s", "server_s"];
        let all = all.map(|part| number(&format!("/virtual_parts/{part}")));
        assert!((all.iter().sum::<f64>() - number("/virtual_s")).abs() < 1e-8, "{summary}");
        (all, output.out)
    };
    let (fast, table) = run(&[]);
    assert!(table.contains("clients' work ") && table.contains(" s, server "), "{table}");
    // A server that is a hundred times slower takes a hundred times as long, and no client does.
    let (slow, _) = run(&["time.server_slowness=2.6"]);
    assert!((slow[3] - 100.0 * fast[3]).abs() < 1e-6 && fast[3] > 0.0, "{slow:?} {fast:?}");
    assert!((slow[0] - fast[0]).abs() < 1e-8 && (slow[1] - fast[1]).abs() < 1e-8);
    // After a deadline no client is waited for, and until it all are.
    let (late, _) = run(&["round={close=\"deadline\",deadline_s=0.3}", "time.server_slowness=0"]);
    assert!((late.iter().sum::<f64>() - 0.6).abs() < 1e-8 && late[2] > 0.05, "{late:?}");
    assert_eq!(late[3], 0.0);
    let page = run_fedcast(folder, &["report", "run", "-o", "page.html"]);
    assert_eq!(page.code, 0, "{}", page.err);
    assert!(read(folder.join("page.html")).contains("Virtual time of rounds"));
}
