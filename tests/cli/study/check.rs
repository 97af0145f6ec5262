//! Studies checked without a run: errors and notes name the cells that they are about.

use std::fs;

use super::{BASE, STUDY, folder, study};
use crate::command::run_fedcast;

/// The file is refused, and the others are checked all the same.
#[test]
fn a_change_of_what_the_study_sets_is_an_error_of_its_file() {
    let folder = folder(STUDY);
    for (change, message) in [
        ("federation.clients=2", "the axis `clients` sets `federation.clients`"),
        ("seed.run=4", "a study sets the seeds of its runs"),
    ] {
        let files = ["check", "base.toml", "a.study.toml", "base.toml", "--set", change];
        let output = run_fedcast(folder.path(), &files);
        let valid = "base.toml: valid\nbase.toml: valid\n";
        assert_eq!((output.code, &*output.out), (3, valid), "{}", output.err);
        assert!(output.err.contains(&format!("--set {change}: {message}")), "{}", output.err);
        assert!(output.err.contains("help: "), "{}", output.err);
        let json = run_fedcast(folder.path(), &[&files[..], &["--format", "json"]].concat());
        let document: serde_json::Value = serde_json::from_str(&json.out).unwrap();
        let valid = |at: usize| &document["files"][at]["valid"];
        assert_eq!(
            (json.code, [0, 1, 2].map(valid)),
            (3, [&true.into(), &false.into(), &true.into()])
        );
        let found = document["files"][1]["errors"][0]["message"].as_str().unwrap();
        assert!(found.ends_with(message), "{found}");
    }
}

#[test]
fn keys_without_an_effect_in_a_cell_are_noted_with_the_cell() {
    let arm = "long = { client.epochs = 3 }";
    let more = "long = { method = { name = \"stsa\" }, client.epochs = 3 }";
    let folder = folder(&STUDY.replace(arm, more));
    let output = run_fedcast(folder.path(), &["check", "a.study.toml"]);
    assert_eq!((output.code, &*output.out), (0, "a.study.toml: valid, 8 runs\n"), "{}", output.err);
    let cell = "note: cell clients=2, method=long, seed 1, and 3 others: ";
    for (note, place) in
        [("federation.rounds = 2 has", "base.toml:6:"), ("[client] has", "base.toml:7:")]
    {
        let (_, rest) = output.err.split_once(&format!("{cell}{note}")).unwrap();
        assert!(rest.lines().nth(1).unwrap().contains(place), "{}", output.err);
    }
    assert_eq!(output.err.matches("note: ").count(), 2, "each once: {}", output.err);
    let started = study(folder.path(), &["--only", "method=fedavg"]);
    assert!(started.err.contains("`fedcast check a.study.toml` says which"), "{}", started.err);
}

/// A partition is drawn once for all methods, and a cell that has none is named.
#[test]
fn a_check_of_a_study_draws_the_partitions_of_its_cells() {
    let folder = folder(&STUDY.replace("values = [2, 3]", "values = [2, 5000]"));
    let output = run_fedcast(folder.path(), &["check", "a.study.toml"]);
    assert_eq!(output.code, 3, "{}", output.err);
    let named = "error: cell clients=5000, method=fedavg, seed 1, and 3 others: ";
    assert!(output.err.starts_with(named), "{}", output.err);
    assert_eq!(output.err.matches("error: ").count(), 1, "{}", output.err);
}

#[test]
fn a_study_of_its_base_alone_is_checked_as_a_study() {
    let folder = folder("schema = 2\nbase = \"base.toml\"\n");
    let output = run_fedcast(folder.path(), &["check", "a.study.toml"]);
    assert_eq!((output.code, &*output.out), (0, "a.study.toml: valid, 1 run\n"), "{}", output.err);
}

/// Only a combination of arms is at fault, so that the place alone does not say which cell it is.
#[test]
fn an_error_of_one_cell_names_the_cell_and_its_seed() {
    let arm = "long = { client.epochs = 3 }";
    let study = STUDY.replace("replicates = 2", "seeds = { run = [4] }");
    let folder = folder(&study.replace(arm, "long = { participation.count = 3 }"));
    let base = BASE.to_owned() + "participation = { kind = \"count\", count = 2 }\n";
    fs::write(folder.path().join("base.toml"), base).unwrap();
    for command in ["study", "check"] {
        let output = run_fedcast(folder.path(), &[command, "a.study.toml"]);
        assert_eq!(output.code, 3, "{}", output.err);
        let named = "error: cell clients=2, method=long, seed 4: ";
        assert!(output.err.starts_with(named), "{}", output.err);
        assert_eq!(output.err.matches("error: ").count(), 1, "{}", output.err);
    }
    let plan = run_fedcast(folder.path(), &["study", "a.study.toml", "--plan"]);
    assert!(plan.out.contains("\nclients=2, method=long, seed 4:\nerror: "), "{}", plan.out);
    let json = run_fedcast(folder.path(), &["study", "a.study.toml", "--format", "json"]);
    let document: serde_json::Value = serde_json::from_str(&json.err).unwrap();
    let message = document["error"]["diagnostics"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("cell clients=2, method=long, seed 4: "), "{message}");
    fs::remove_file(folder.path().join("base.toml")).unwrap();
    let plan = run_fedcast(folder.path(), &["study", "a.study.toml", "--plan"]);
    assert!(plan.out.contains("\nall 4 runs:\nerror: cannot read"), "{}", plan.out);
}

#[test]
fn a_study_and_a_scenario_that_are_mixed_up_are_called_by_their_names() {
    let folder = folder(STUDY);
    let folder = folder.path();
    fs::write(folder.join("b.study.toml"), STUDY.replace("base.toml", "a.study.toml")).unwrap();
    for (arguments, hints) in [
        (&["run", "a.study.toml"][..], ["a.study.toml:2:8", "`fedcast study a.study.toml`"]),
        (&["plan", "a.study.toml"], ["this is a study", "`fedcast study a.study.toml`"]),
        (&["study", "base.toml"], ["this is a scenario", "`fedcast run base.toml`"]),
        (&["study", "b.study.toml"], ["a.study.toml:2:8", "this study changes"]),
    ] {
        let output = run_fedcast(folder, arguments);
        assert_eq!(output.code, 3, "{arguments:?}: {}", output.err);
        assert!(
            hints.iter().all(|hint| output.err.contains(hint)),
            "{arguments:?}: {}",
            output.err
        );
        let errors = output.err.lines().filter(|line| line.starts_with("error")).count();
        assert_eq!(errors, 1, "{arguments:?}: {}", output.err);
    }
}
