use std::fs;
use std::path::Path;

use super::*;
use crate::experiment::names;
use crate::methods::Registry;
use crate::results::{Arm, MetricLimit, RunRecord};

/// A finished run with this accuracy after each of its rounds.
fn run(folder: &Path, seeds: [u64; 3], seen: &[f64]) -> RunRecord {
    let [run, partition, class_order] = seeds;
    let manifest = serde_json::json!({
        "format": 2, "fedcast": "0.1.0", "status": "done",
        "scenario": { "name": "hand", "hash": "00" }, "method": "hgp",
        "seeds": { "run": run, "partition": partition, "class_order": class_order },
        "data": null, "backbone": null, "level": "N", "workers": 1,
        "machine": crate::experiment::Machine::here(),
    });
    let rounds = seen.iter().enumerate().map(|(at, seen)| format!("{},{seen}\n", at + 1));
    let rounds = format!("round,accuracy_seen\n{}", rounds.collect::<String>());
    let summary = serde_json::json!({ "accuracy": { "faa": seen.last() } });
    let folder = folder.join(format!("{run}-{partition}-{class_order}"));
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in [
        (names::MANIFEST, manifest.to_string()),
        (names::SCENARIO, "schema = 2\n".to_owned()),
        (names::SUMMARY, summary.to_string()),
        (names::ROUNDS, rounds),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    RunRecord::read(&folder).unwrap()
}

/// Two groups, compared in what it took to reach an accuracy of one half.
fn compared(one: Vec<RunRecord>, other: Vec<RunRecord>) -> Comparison {
    let arm = |runs| Arm::sort(runs).remove(0);
    let groups = vec![("one".to_owned(), arm(one)), ("other".to_owned(), arm(other))];
    Comparison::of(groups, &[Metric::parse("rounds_to:0.5").unwrap()], &Registry::builtin())
        .unwrap()
}

/// Its words without the blanks between them.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn runs_that_never_reached_an_accuracy_are_named() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let text = compared(
        vec![run(&at("a"), [1, 1, 1], &[0.4, 0.6]), run(&at("a"), [2, 2, 2], &[0.4, 0.4])],
        vec![run(&at("b"), [1, 1, 1], &[0.1, 0.2])],
    );
    let lines: Vec<String> = text.render().lines().map(words).collect();
    assert!(
        lines.iter().any(|line| line == "rounds until accuracy 50 % 2 (1 of 2) never"),
        "{lines:?}"
    );
    let expected = "rounds until accuracy 50 % B never reached it";
    assert!(lines.iter().any(|line| line == expected), "{lines:?}");
    let turned = compared(
        vec![run(&at("b"), [1, 1, 1], &[0.1, 0.2])],
        vec![run(&at("a"), [1, 1, 1], &[0.4, 0.6])],
    );
    assert!(turned.render().contains("A never reached it"), "{}", turned.render());
    let neither =
        compared(vec![run(&at("b"), [1, 1, 1], &[0.1])], vec![run(&at("b"), [1, 1, 1], &[0.1])]);
    assert!(neither.render().contains("neither reached it"), "{}", neither.render());
}

#[test]
fn seeds_are_listed_unless_they_follow_from_that_of_the_run() {
    let root = tempfile::tempdir().unwrap();
    let heads = |one: [u64; 3], other: [u64; 3]| {
        let run = |name: &str, seeds| vec![run(&root.path().join(name), seeds, &[0.5])];
        let text = compared(run("a", one), run("b", other)).render();
        text.lines().take(2).map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    let text = heads([1, 0, 0], [1, 1, 0]);
    let word = "seed (run/partition/class order)";
    let must = format!("A  one  (hgp, 1 run, {word} 1/0/0)\nB  other  (hgp, 1 run, {word} 1/1/0)");
    assert_eq!(text, must);
    assert!(heads([1, 0, 0], [1, 0, 1]).contains("1/0/1"));
    for (one, other) in [([1, 0, 0], [2, 0, 0]), ([1, 1, 1], [2, 2, 2])] {
        let text = heads(one, other);
        assert_eq!(text, "A  one  (hgp, 1 run, seed 1)\nB  other  (hgp, 1 run, seed 2)");
    }
}

#[test]
fn missing_accuracy_is_reported_in_points() {
    let root = tempfile::tempdir().unwrap();
    let run = |name: &str, seen| vec![run(&root.path().join(name), [1, 1, 1], &[seen])];
    let comparison = compared(run("a", 0.75), run("b", 0.5));
    let broken = MetricLimit::parse("faa=0.005").unwrap().broken(&comparison);
    assert_eq!(broken, ["other: faa is worse by 25.00 points, tolerated are 0.50 points"]);
}
