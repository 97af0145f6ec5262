//! Promise: `profile.jsonl` and the final table say where the wall time of a run went, and it adds up.

use crate::command::{read, tiny_run};
use serde_json::Value;

/// Key of the summary, true for workers (false for the event loop), and the jobs that it sums.
const SHARES: [(&str, bool, &[&str]); 9] = [
    ("train_s", true, &["train"]),
    ("evaluate_s", true, &["evaluate"]),
    ("codec_s", true, &["codec"]),
    ("aggregate_s", true, &["aggregate"]),
    ("server_s", true, &["server", "bias"]),
    ("wait_s", true, &["idle"]),
    ("journal_s", false, &["journal"]),
    ("checkpoint_s", false, &["snapshot"]),
    ("event_loop_wait_s", false, &["idle"]),
];

#[test]
fn the_shares_of_the_wall_time_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let run = tiny_run(folder.path(), &["--workers", "2"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let file = |name: &str| read(folder.path().join("run").join(name));
    let spans: Vec<Value> =
        file("profile.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary: Value = serde_json::from_str(&file("summary.json")).unwrap();
    let seconds = |name: &str| summary["wall"][name].as_f64().expect(name);
    let spent = |of: &dyn Fn(&Value) -> bool| -> f64 {
        let nanos = spans.iter().filter(|span| of(span)).map(|span| span["wall"].as_u64().unwrap());
        nanos.sum::<u64>() as f64 / 1e9
    };

    // Every line is in exactly one share, and every share is the sum of its lines.
    let mut all = 0.0;
    for (name, worker, jobs) in SHARES {
        let of = |span: &Value| {
            span["worker"].is_u64() == worker && jobs.contains(&span["job"].as_str().unwrap())
        };
        assert!((seconds(name) - spent(&of)).abs() < 1e-6, "{name}");
        all += seconds(name);
    }
    assert!((all - spent(&|_| true)).abs() < 1e-6, "{all}");
    assert!(seconds("train_s") > 0.0 && seconds("evaluate_s") > 0.0 && seconds("codec_s") > 0.0);

    // Also for every round, of the work reported while it was open: never more than the total.
    let wall = file("wall.csv");
    let mut rows = wall.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let rows: Vec<Vec<&str>> = rows.collect();
    for (name, ..) in &SHARES[..6] {
        let place = head.iter().position(|column| column == name).expect(name);
        let sum: f64 = rows.iter().map(|row| row[place].parse::<f64>().unwrap()).sum();
        assert!(sum <= seconds(name) + 1e-6, "{name}: {sum} of {}", seconds(name));
        assert!(*name != "train_s" || sum > 0.0, "no training in any round");
    }

    // What a worker did and waited is the run, but for its start and end; the event loop also decides.
    let total = seconds("total_s");
    for worker in 0..2 {
        let sum = spent(&|span| span["worker"] == worker);
        assert!(sum <= total && sum > 0.8 * total, "worker {worker}: {sum} of {total}");
    }
    let event_loop = spent(&|span| span["worker"].is_null());
    assert!(event_loop <= total && event_loop > 0.5 * total, "event loop: {event_loop} of {total}");

    let words = ["training", "evaluation", "codec", "aggregation", "journal", "waiting"];
    for word in words {
        assert!(run.out.contains(&format!("{word} ")), "{word}: {}", run.out);
    }
}
