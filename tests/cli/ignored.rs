//! Promise: a key that a method never looks at is said before anything is computed, and under the results.

use std::fs;

use crate::command::{Told, read, tell, tiny};

const STSA: &str = "method={name=\"stsa\",width=16,first={name=\"none\"}}";

/// The tiny scenario with statistics in place of training, as a file that sets what it ignores.
fn said(arguments: &[&str]) -> Told {
    let folder = tempfile::tempdir().unwrap();
    let text = read(tiny()).replace(
        "name = \"hgp\"\nprompt_len = 8",
        "name = \"stsa\"\nwidth = 16\nfirst.name = \"none\"",
    );
    fs::write(folder.path().join("s.toml"), format!("{text}\n[participation]\ncount = 2\n"))
        .unwrap();
    tell(folder.path(), arguments)
}

#[test]
fn check_points_at_every_key_that_means_nothing() {
    let told = said(&["check", "s.toml"]);
    assert_eq!(told.code, 0, "{}", told.err);
    insta::assert_snapshot!(told.err);
    let json = said(&["check", "s.toml", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let places = json[0]["notes"].as_array().unwrap().iter();
    let texts: Vec<&str> = places.map(|note| note["place"]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["rounds = 1", "[client]", "count = 2"]);
    assert_eq!(json[0]["errors"], serde_json::json!([]));
}

#[test]
fn plan_run_and_replay_say_it_and_who_was_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = tiny();
    let tiny = tiny.to_str().unwrap();
    let sets = ["--set", STSA, "--set", "participation.count=2"];
    let planned = tell(folder.path(), &[&["plan", tiny][..], &sets].concat());
    let sentence = "participation.count = 2 has no meaning for `stsa`";
    assert!(planned.out.contains(&format!("not used: {sentence}")), "{}", planned.out);
    let ran = tell(folder.path(), &[&["run", tiny, "-o", "run"][..], &sets].concat());
    assert!(ran.err.starts_with("note: "), "{}", ran.err);
    assert!(ran.out.contains("sampled     3 of 3 clients in a round\n"), "{}", ran.out);
    assert!(ran.out.contains(&format!("not used    {sentence}")), "{}", ran.out);
    let replayed = tell(folder.path(), &["replay", "run"]);
    assert!(replayed.out.contains(&format!("not used    {sentence}")), "{}", replayed.out);
    let summary: serde_json::Value =
        serde_json::from_str(&read(folder.path().join("run/summary.json"))).unwrap();
    let sampled =
        serde_json::json!([{ "phase": "statistics", "rounds": 2, "fewest": 3, "most": 3 }]);
    assert_eq!(summary["sampled"], sampled);
    assert_eq!(summary["ignored"].as_array().unwrap().len(), 3);
}

#[test]
fn a_method_that_uses_its_keys_has_nothing_to_say() {
    let folder = tempfile::tempdir().unwrap();
    let told =
        tell(folder.path(), &["check", tiny().to_str().unwrap(), "--set", "participation.count=2"]);
    assert_eq!((told.code, &*told.err), (0, ""));
}

#[test]
fn methods_say_what_they_ignore_before_anybody_writes_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    for (method, must) in [
        ("stsa", "ignores         [participation]: every holder of a task's data takes part in"),
        ("stsa", "clients are sampled for `train` of the first task only"),
        ("stsa", "ignores         federation.rounds: it holds in the first task only"),
        (
            "stsa",
            "ignores         [client]: it holds in the first task only; later clients train nothing",
        ),
        ("hgp", "clients keep    nothing between rounds"),
        ("icarl", "clients keep    state between rounds"),
        ("oracle", "needs           one site: federation.clients = 1"),
        ("hgp", "packs           yes"),
        ("gradma", "cost            3.00 at a client"),
    ] {
        let told = tell(folder.path(), &["methods", "show", method]);
        assert!(told.out.contains(must), "{method}: {must}\n{}", told.out);
    }
}
