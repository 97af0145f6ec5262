//! Promise: `fedcast compare` says what was asked differently, where runs part and who is better, with the numbers of
//! the runs' own files, paired by seeds.

use std::path::Path;

use serde_json::Value;

use crate::arms::{HEAD, figure, run, two_methods};
use crate::command::{CommandOutput, run_fedcast};

fn compare(folder: &Path, arguments: &[&str]) -> CommandOutput {
    run_fedcast(folder, &[&["compare"], arguments].concat())
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = compare(folder, &[arguments, &["--format", "json"]].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(&output.out).unwrap()
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value - expected).abs() < 1e-12, "{value} is not {expected}");
}

#[test]
fn groups_are_paired_by_seeds_and_their_numbers_are_those_of_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    two_methods(at, &[1, 2, 3]);
    // One that nothing pairs with, before the others in order of paths.
    run(at, "stsa/first", crate::arms::STSA, 9, &[]);
    let output = json(at, &["fedavg", "stsa"]);
    let faa = |arm: &str, run: &str| figure(&at.join(arm).join(run), "/accuracy/faa");
    let seeds = ["seed-1", "seed-2", "seed-3"];
    let fedavg = seeds.map(|seed| faa("fedavg", seed));
    let stsa = seeds.map(|seed| faa("stsa", seed));

    let metrics = output["comparison"]["metrics"].as_array().unwrap();
    let row = metrics.iter().find(|row| row["name"] == "faa").unwrap();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    near(&row["spread"][0]["mean"], mean(&fedavg));
    let all = [stsa[0], stsa[1], stsa[2], faa("stsa", "first")];
    near(&row["spread"][1]["mean"], mean(&all));
    assert_eq!(row["spread"][1]["n"], 4);
    let deviation = fedavg.iter().map(|value| (value - mean(&fedavg)).powi(2)).sum::<f64>() / 2.0;
    near(&row["spread"][0]["deviation"], deviation.sqrt());

    // What the second has more than the first, of the three pairs only.
    let against = &row["against"][0];
    assert_eq!(against["pairs"], 3);
    let differences: Vec<f64> = (0..3).map(|seed| stsa[seed] - fedavg[seed]).collect();
    near(&against["difference"], mean(&differences));
    let turned = json(at, &["stsa", "fedavg", "--metric", "faa"]);
    near(&turned["comparison"]["metrics"][0]["against"][0]["difference"], -mean(&differences));

    // Bytes by kind, as the summaries have them.
    let bytes = output["comparison"]["bytes"].as_array().unwrap();
    let head = bytes.iter().find(|row| row["name"] == "bytes_up_head").unwrap();
    near(
        &head["spread"][0]["mean"],
        figure(&at.join("fedavg/seed-1"), "/bytes/up/delivered/kinds/head"),
    );
    near(&head["spread"][1]["mean"], 0.0);
}

#[test]
fn only_different_keys_are_listed_and_defaults_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    two_methods(folder.path(), &[1]);
    let output = compare(folder.path(), &["fedavg", "stsa"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let keys: Vec<&str> = output.out.lines().filter(|line| line.starts_with("method.")).collect();
    insta::assert_snapshot!(keys.join("\n"));
    assert!(!output.out.contains("federation.clients") && !output.out.contains("seed.run"));
    let defaults: Vec<&str> =
        output.out.lines().filter(|line| line.starts_with("defaults")).collect();
    assert_eq!(defaults.len(), 2, "{}", output.out);
    assert!(
        defaults[0].contains("defaults of A")
            && defaults[0].contains("method.head_form = \"fixed\"")
    );
}

#[test]
fn the_first_round_that_differs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run(at, "a", HEAD, 1, &["--set", "federation.rounds=2"]);
    // Another rate of learning: the same clients and bytes, other weights.
    let rate = "client.optimizer={kind=\"adamw\",lr=0.1}";
    run(at, "b", HEAD, 1, &["--set", "federation.rounds=2", "--set", rate]);
    let output = json(at, &["a", "b"]);
    let parting = &output["comparison"]["parting"][0];
    assert_eq!((&parting["cohort"], &parting["bytes"]), (&Value::Null, &Value::Null));
    assert!(parting["accuracy"].as_u64().unwrap() >= 1, "{parting}");
    assert_eq!(parting["rounds"], serde_json::json!([4, 4]));
    let same = json(at, &["a", "a"]);
    assert_eq!(same["comparison"]["parting"][0]["accuracy"], Value::Null);
    let text = compare(at, &["a", "a"]).out;
    assert!(text.contains("the scenarios are equal, and so are their seeds"), "{text}");
    run(at, "a-2", HEAD, 2, &["--set", "federation.rounds=2"]);
    let text = compare(at, &["a", "a-2"]).out;
    assert!(text.contains("the scenarios differ only in seeds"), "{text}");

    // Other clients are sampled from the first round on in which the draw falls otherwise.
    let some = ["--set", "participation={kind=\"count\",count=2}"];
    run(at, "c", HEAD, 1, &some);
    let output = json(at, &["a", "c"]);
    assert_eq!(output["comparison"]["parting"][0]["cohort"], 1);
    assert_eq!(output["comparison"]["parting"][0]["bytes"], 1);
}

#[test]
fn what_is_worse_by_more_than_tolerated_is_11() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    two_methods(at, &[1]);
    let (fedavg, stsa) = (at.join("fedavg/seed-1"), at.join("stsa/seed-1"));
    let faa = |run: &Path| figure(run, "/accuracy/faa");
    let (better, worse, gap) = match faa(&stsa) > faa(&fedavg) {
        true => ("stsa", "fedavg", faa(&stsa) - faa(&fedavg)),
        false => ("fedavg", "stsa", faa(&fedavg) - faa(&stsa)),
    };
    assert!(gap > 0.01, "the two methods are alike: {gap}");
    let code = |one: &str, other: &str, limit: &str| {
        let output = compare(at, &[one, other, "--fail-if-worse", limit]);
        assert_eq!(output.code == 11, output.err.starts_with("worse: "), "{}", output.err);
        output.code
    };
    assert_eq!(code(better, worse, &format!("faa={}", gap + 0.001)), 0);
    assert_eq!(code(better, worse, &format!("faa={}", gap - 0.001)), 11);
    assert_eq!(code(worse, better, "faa=0"), 0, "better is not worse");
    // Bytes: less is better, and a tolerance may be a part of the first's.
    let up = |run: &Path| figure(run, "/bytes/up/delivered/bytes");
    let (less, more) =
        if up(&fedavg) < up(&stsa) { ("fedavg", "stsa") } else { ("stsa", "fedavg") };
    let part =
        100.0 * (up(&at.join(more).join("seed-1")) / up(&at.join(less).join("seed-1")) - 1.0);
    assert_eq!(code(less, more, &format!("bytes_up={}%", part + 1.0)), 0);
    assert_eq!(code(less, more, &format!("bytes_up={}%", part - 1.0)), 11);
    assert_eq!(code(more, less, "bytes_up=0%"), 0);
}

#[test]
fn what_cannot_be_compared_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "a", HEAD, 1, &[]);
    for (arguments, must) in [
        (vec!["a"], "only one group"),
        (vec!["a", "nowhere"], "no run at or below nowhere"),
        (vec!["a", "a", "--metric", "fa"], "did you mean `faa`?"),
        (vec!["a", "a", "--fail-if-worse", "participants=1"], "neither better nor worse"),
    ] {
        let output = compare(folder.path(), &arguments);
        assert_eq!(output.code, 2, "{arguments:?} {}", output.err);
        assert!(output.err.contains(must), "{arguments:?} {}", output.err);
    }
}
