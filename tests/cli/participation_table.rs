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

#[test]
fn sums_of_clients_are_those_of_rounds() {
    sums_agree(TROUBLE);
    sums_agree(&[TROUBLE, &["--set", "federation.load_clients=4"]].concat());
}

/// Rounds end, and the next ones open, before the first frame of some load clients has arrived.
#[test]
fn rows_of_slow_load_clients_have_their_bytes() {
    let slow = "links.down_mb_per_s={dist=\"log-normal\",median=0.1,sigma=2}";
    let load = ["--set", "federation.load_clients=4", "--set", slow];
    sums_agree(&[TROUBLE, &load].concat());
}

fn sums_agree(settings: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let output = tiny_run(folder.path(), settings);
    assert_eq!(output.code, 0, "{}", output.err);
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
    for outcome in ["aggregated", "late", "lost"] {
        assert!(outcomes.contains(&outcome), "{outcome}: {outcomes:?}");
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
}
