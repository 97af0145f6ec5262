//! Promise: participation.csv says what became of every client in every round, and its sums are those of other tables.

use std::collections::BTreeMap;
use std::path::Path;

use crate::command::{read, run_fedcast, tiny_run};

/// Rows by column.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = read(path);
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        head.iter().zip(line.split(',')).map(|(k, v)| ((*k).to_owned(), v.to_owned())).collect()
    };
    lines.map(row).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> u64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {row:?}"))
}

/// Six clients over lossy links, of which one is slow; the two slowest of a round come too late.
const TROUBLE: &[&str] = &[
    "--set",
    "federation={clients=6,rounds=3}",
    "--set",
    "links.loss_rate=0.15",
    "--set",
    "round={close=\"quorum\",quorum=0.5}",
    "--set",
    "record.evaluate=\"task\"",
];

/// Six clients whose uploads are added in secret, until a deadline that some of them miss.
const SECRET: &[&str] = &[
    "--set",
    "method={name=\"fedavg\"}",
    "--set",
    "federation={clients=6,rounds=3}",
    "--set",
    "links.loss_rate=0.03",
    "--set",
    "privacy.secure_aggregation=true",
    "--set",
    "record.evaluate=\"task\"",
    "--set",
];

#[test]
fn sums_of_clients_are_those_of_rounds() {
    let outcomes = ["aggregated", "late", "lost"];
    sums_agree(TROUBLE, 0, &outcomes);
    let loaded = [TROUBLE, &["--set", "federation.load_clients=4"]].concat();
    sums_agree(&loaded, 0, &outcomes);
}

/// Rounds end, and the next ones open, before the first frame of some load clients has arrived.
#[test]
fn rows_of_slow_load_clients_have_their_bytes() {
    let slow = "links.down_mb_per_s={dist=\"log-normal\",median=0.1,sigma=2}";
    let load = ["--set", "federation.load_clients=4", "--set", slow];
    sums_agree(&[TROUBLE, &load].concat(), 0, &["aggregated"]);
}

#[test]
fn sums_of_clients_agree_at_deadlines_in_secret() {
    let slow = [SECRET, &["round={close=\"deadline\",deadline_s=2}"]].concat();
    sums_agree(&slow, 0, &["aggregated", "late", "lost", "unopened"]);
    // The round closes while keys are exchanged, and no update is ever asked for.
    let at_once = [SECRET, &["round={close=\"deadline\",deadline_s=0.15}"]].concat();
    let run = sums_agree(&at_once, 7, &["lost", "unused"]);
    let bytes = rows(&run.path().join("run/bytes.csv"));
    let late = |row: &&BTreeMap<String, String>| row["outcome"] == "late";
    assert!(bytes.iter().filter(late).any(|row| row["kind"] == "secure_aggregation"));
    assert!(bytes.iter().filter(late).all(|row| row["direction"] == "up"));
    for row in rows(&run.path().join("run/participation.csv")) {
        // Keys are neither a model nor an update.
        assert_eq!((row["received_s"].as_str(), row["arrived_s"].as_str()), ("", ""), "{row:?}");
    }
}

/// Runs the tiny scenario and holds its tables against each other; returns the folder of the run.
fn sums_agree(settings: &[&str], code: i32, expected: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let output = tiny_run(folder.path(), settings);
    assert_eq!(output.code, code, "{}", output.err);
    let run = folder.path().join("run");
    let all = rows(&run.join("participation.csv"));
    let of_clients = |column: &str| -> BTreeMap<u64, u64> {
        let mut sums = BTreeMap::new();
        for row in &all {
            *sums.entry(number(row, "round")).or_default() += number(row, column);
        }
        sums
    };
    let rounds = rows(&run.join("rounds.csv"));
    let of_rounds = |column: &str| -> BTreeMap<u64, u64> {
        rounds.iter().map(|row| (number(row, "round"), number(row, column))).collect()
    };
    assert_eq!(of_clients("participants_aggregated"), of_rounds("aggregated"));
    assert_eq!(of_clients("sampled"), of_rounds("sampled"));
    assert_eq!(of_clients("participants"), of_rounds("participants"));
    // Bytes of everything, wherever a frame came in after its round.
    let bytes = rows(&run.join("bytes.csv"));
    let way = |row: &&BTreeMap<String, String>, way: &str| row["direction"] == way;
    for (column, direction) in [("bytes_down", "down"), ("bytes_up", "up")] {
        let of_clients = all.iter().map(|row| number(row, column)).sum::<u64>();
        let charged =
            bytes.iter().filter(|row| way(row, direction)).map(|row| number(row, "bytes"));
        let charged = charged.sum::<u64>();
        let of_rounds = rounds.iter().map(|row| number(row, column)).sum::<u64>();
        assert_eq!((of_clients, of_rounds), (charged, charged), "{column}");
    }
    let late = rounds.iter().map(|row| number(row, "late")).sum::<u64>();
    let frames = bytes.iter().filter(|row| row["outcome"] == "late" && row["kind"] == "control");
    assert_eq!(late, frames.map(|row| number(row, "frames")).sum::<u64>());
    let outcomes: Vec<&str> = all.iter().map(|row| row["outcome"].as_str()).collect();
    for outcome in expected {
        assert!(outcomes.contains(outcome), "{outcome}: {outcomes:?}");
    }
    assert!(
        all.iter()
            .all(|row| (row["outcome"] == "aggregated") == (row["participants_aggregated"] == "1"))
    );
    // Times go one way: the model reaches a client, is trained on, and its upload arrives.
    for row in all.iter().filter(|row| row["outcome"] == "aggregated") {
        let at = |column: &str| row[column].parse::<f64>().unwrap();
        let order = ["opened_s", "received_s", "trained_s", "arrived_s"].map(at);
        assert!(order.is_sorted(), "{row:?}");
    }
    let replayed = run_fedcast(folder.path(), &["replay", "run", "-o", "again"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    let file = |of: &str| read(folder.path().join(of).join("participation.csv"));
    assert_eq!(file("run"), file("again"));
    folder
}

/// Load clients load links; where no message crosses a link, there are none.
#[test]
fn upper_bounds_have_no_load_clients() {
    for method in ["joint", "oracle"] {
        let folder = tempfile::tempdir().unwrap();
        let settings = |load: u32| {
            [
                format!("method={{name=\"{method}\"}}"),
                "tasks={count=1}".to_owned(),
                format!("federation={{clients=1,rounds=2,load_clients={load}}}"),
            ]
        };
        let run = |out: &str, load: u32| {
            let tiny = crate::command::tiny();
            let settings = settings(load);
            let mut arguments = vec!["run", tiny.to_str().unwrap(), "-o", out];
            arguments.extend(settings.iter().flat_map(|set| ["--set", set]));
            let output = run_fedcast(folder.path(), &arguments);
            assert_eq!(output.code, 0, "{}", output.err);
            output.err
        };
        run("alone", 0);
        let said = run("loaded", 3);
        let note = format!("federation.load_clients = 3 has no effect for `{method}`: no message");
        assert!(said.contains(&note), "{said}");
        let table = |of: &str, name: &str| read(folder.path().join(of).join(name));
        for name in ["participation.csv", "rounds.csv", "events.jsonl"] {
            assert_eq!(table("alone", name), table("loaded", name), "{method}: {name}");
        }
        let rounds = rows(&folder.path().join("loaded/rounds.csv"));
        assert!(rounds.iter().all(|row| row["participants"] == "1"), "{rounds:?}");
    }
}
