//! Promise: partition.csv gives the samples of each client, as trained on and as `plan --partition` prints.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::command::{read, run_fedcast, tiny, tiny_run};

#[test]
fn what_clients_hold_is_what_they_train_on() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(tiny_run(folder.path(), &[]).code, 0);
    let text = read(folder.path().join("run/partition.csv"));
    let mut held: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut classes: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let rows: Vec<Vec<u64>> = text
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect())
        .collect();
    for row in &rows {
        let [task, client, class, samples, name] = row[..] else { panic!("{row:?}") };
        assert_eq!(name, class, "digits are called by their numbers");
        *held.entry((task, client)).or_default() += samples;
        let of_class = classes.entry(class).or_insert((task, 0));
        assert_eq!(of_class.0, task, "a class arrives with one task");
        of_class.1 += samples;
    }
    // Twelve of each of ten digits, five digits to a task.
    assert!(classes.len() == 10 && classes.values().all(|(_, samples)| *samples == 12));
    let summary: Vec<Value> = read(folder.path().join("run/events.jsonl"))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let trained = summary.iter().filter(|entry| entry["event"]["type"] == "client_trained");
    for entry in trained {
        let event = |key: &str| entry["event"][key].as_u64().unwrap();
        assert_eq!(held[&(event("task") + 1, event("client"))], event("samples"));
    }

    let file = tiny();
    let plan = |more: &[&str]| {
        let output = run_fedcast(
            folder.path(),
            &[&["plan", file.to_str().unwrap(), "--partition"], more].concat(),
        );
        assert_eq!(output.code, 0, "{}", output.err);
        output.out
    };
    let planned: Value = serde_json::from_str(&plan(&["--format", "json"])).unwrap();
    let planned = planned["holdings"].as_array().unwrap().iter();
    let planned: Vec<Vec<u64>> = planned
        .map(|row| {
            let mut cells = ["task", "client", "class", "samples"]
                .map(|key| row[key].as_u64().unwrap())
                .to_vec();
            cells.push(row["name"].as_str().unwrap().parse().unwrap());
            cells
        })
        .collect();
    assert_eq!(planned, rows);
    let table = plan(&[]);
    assert!(table.contains("3 clients with samples; 120 samples in total"), "{table}");
    let fresh = ["plan", file.to_str().unwrap(), "--partition", "--set"];
    let fresh =
        run_fedcast(folder.path(), &[&fresh[..], &["participation.population=fresh"]].concat());
    assert!(fresh.code == 2 || fresh.code == 3, "{}", fresh.err);
}
