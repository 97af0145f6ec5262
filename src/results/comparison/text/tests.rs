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
fn pairs_of_which_one_run_never_got_there_are_no_verdict() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let runs = |name: &str, seen: [&[f64]; 3]| -> Vec<RunRecord> {
        (1..).zip(seen).map(|(seed, seen)| run(&at(name), [seed; 3], seen)).collect()
    };
    // The second never gets there with one seed, and is as fast with the other two.
    let all = runs("a", [&[0.6], &[0.6], &[0.6]]);
    let some = runs("b", [&[0.4], &[0.6], &[0.6]]);
    let limit = MetricLimit::parse("rounds_to:0.5=0").unwrap();
    let comparison = compared(all.clone(), some.clone());
    let against = comparison.metrics[0].against[0].unwrap();
    assert_eq!((against.pairs, against.missing, against.missing_in_first), (2, 1, 0));
    assert_eq!(against.verdict, Verdict::Unsure);
    let broken = limit.broken(&comparison);
    let missing = "other: rounds_to:0.5 is missing in 1 of 3 pairs of runs, but not in A";
    assert_eq!(broken, [missing]);
    let lines: Vec<String> = comparison.render().lines().map(words).collect();
    assert!(lines.iter().any(|line| line.ends_with("2 of 3 unsure")), "{lines:?}");

    let turned = compared(some, all);
    let against = turned.metrics[0].against[0].unwrap();
    assert_eq!((against.pairs, against.missing, against.missing_in_first), (2, 0, 1));
    assert_eq!(against.verdict, Verdict::Unsure);
    assert_eq!(limit.broken(&turned), [""; 0]);

    // Slower where both get there, and with no run missing.
    let slow = runs("c", [&[0.4, 0.6], &[0.4, 0.6], &[0.4, 0.6]]);
    let fast = runs("d", [&[0.6], &[0.6], &[0.6]]);
    let against = |one: &[RunRecord], other: &[RunRecord]| {
        compared(one.to_vec(), other.to_vec()).metrics[0].against[0].unwrap().verdict
    };
    assert_eq!(against(&fast, &slow), Verdict::Worse);
    let lucky = runs("e", [&[0.4, 0.4], &[0.6], &[0.6]]);
    assert_eq!(against(&slow, &lucky), Verdict::Unsure, "faster, but not with every seed");
    assert_eq!(against(&lucky, &slow), Verdict::Unsure);
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
