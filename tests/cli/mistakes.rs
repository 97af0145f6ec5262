//! Promise: a common mistake gets a documented exit code and advice on what to write instead.
//!
//! Every line of the table is typed at a shell, in a folder with a scenario, a run and the files of other programs; what
//! is said, and the code, are one snapshot.

use std::fs;
use std::path::Path;

use crate::command::{CommandOutput, read, run_fedcast, tiny, tiny_run};

/// Command lines, a word each behind `|`.
const MISTAKES: &[&str] = &[
    // Overrides that a shell has taken apart.
    "check|t.toml|--set|method={name=fedavg}",
    "check|t.toml|--set|client.optimizer={kind=sgd, lr=0.1}",
    "check|t.toml|--set|method=name=stsa",
    "run|t.toml|--set|method=name=stsa|method=width=256",
    "run|t.toml|--set|client.epochs|=|5",
    "run|t.toml|--set|client.epochs|5",
    "check|t.toml|--set|client.epochs",
    // Tables written in short, and tables of another kind.
    "check|t.toml|--set|method=fedavg",
    "check|t.toml|--set|seed=3",
    "check|t.toml|--set|tasks=5",
    "check|t.toml|--set|links=mobile",
    "check|t.toml|--set|backbone=pixels",
    "check|t.toml|--set|method.name=stsa",
    "check|t.toml|--set|partition.kind=iid",
    // Values as TOML does not have them.
    "check|t.toml|--set|client.optimizer.lr=.003",
    "check|t.toml|--set|client.optimizer.lr=\"0.1\"",
    "check|t.toml|--set|wire.verify=True",
    "check|t.toml|--set|wire.verify=yes",
    "check|t.toml|--set|federation.clients=1,000",
    "check|t.toml|--set|federation.clients=3.5",
    "check|t.toml|--set|federation.rounds=1e1",
    "check|t.toml|--set|federation.rounds=5000000000",
    "check|t.toml|--set|seed.run=9223372036854775808",
    "check|slips.toml",
    // Keys and words.
    "check|t.toml|--set|client.lr=0.1",
    "check|t.toml|--set|clients=5",
    "check|t.toml|--set|federation.epochs=5",
    "check|t.toml|--set|client.optimizer.kind=Adam",
    "check|t.toml|--set|data.source=csf",
    "check|t.toml|--set|backbone.kind=resnet50",
    "check|t.toml|--set|availability={kind=\"trace\",file=\"available.csv\"}",
    // Options that are keys.
    "run|t.toml|--clients|5",
    "run|t.toml|--rounds=5",
    "run|t.toml|--method|fedavg",
    "run|t.toml|--seed|abc",
    // Files of other formats, and no files.
    "check|a.yaml",
    "check|a.json",
    "run|nowhere.toml",
    "replay|nosuch",
    "replay|run|--verify|--from-round|99",
    "run|t.toml|-q|-o|run",
    "methods|show|hpg",
    // Words that are looked up.
    "keys|optimiser",
    "keys|optimizer",
    "keys|hgp",
    "keys|axes",
    "keys|study.reports",
    "columns|roundz.csv",
    "columns|acuracy_seen",
    "plan|t.toml|--json",
    // The same for programs.
    "run|nowhere.toml|--format|json",
    "plan|t.toml|--format=json|--set|client.epoch=3",
    "run|t.toml|--format|json|--clients|5",
    "methods|show|hpg|--format|json",
];

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("t.toml", &read(tiny()));
    write("a.yaml", "schema: 1\ndata:\n  source: digits\n");
    write("a.json", "{\"schema\": 1}");
    write("available.csv", "client,time_s,available\n0,1,1\n");
    let slips = "schema = 2\nname = tiny\n[federation]\nrounds = 1,000\n[wire]\nverify = True\n\
                 [client]\noptimizer = { kind = \"sgd\", lr = .003 }\n";
    write("slips.toml", slips);
    assert_eq!(tiny_run(folder.path(), &[]).code, 0);
    folder
}

fn typed(folder: &Path, line: &str) -> CommandOutput {
    run_fedcast(folder, &line.split('|').collect::<Vec<_>>())
}

#[test]
fn common_mistakes_are_refused_with_the_correction() {
    let folder = folder();
    let place = folder.path().display().to_string();
    let mut text = String::new();
    for line in MISTAKES {
        let CommandOutput { code, out, err } = typed(folder.path(), line);
        let said = err.replace(&place, "FOLDER");
        text.push_str(&format!("$ fedcast {}\n{said}{out}=> {code}\n\n", line.replace('|', " ")));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn an_error_that_is_json_has_one_form_and_leaves_stdout_empty() {
    let folder = folder();
    for line in MISTAKES.iter().filter(|line| line.contains("json") && line.contains("--format")) {
        let CommandOutput { code, out, err } = typed(folder.path(), line);
        assert_eq!(out, "", "{line}");
        let document: serde_json::Value = serde_json::from_str(&err).unwrap();
        assert_eq!(document["error"]["exit"], code, "{line}");
        assert!(document["error"]["message"].as_str().is_some_and(|text| text.len() > 10));
        assert!(document["error"]["diagnostics"].is_array());
    }
}

#[test]
fn a_directory_is_never_hidden_whatever_the_name() {
    let folder = folder();
    let output = typed(folder.path(), "run|t.toml|-q|--set|name=../../evil");
    assert_eq!(output.code, 0, "{}", output.err);
    let made = fs::read_dir(folder.path().join("runs")).unwrap().next().unwrap().unwrap();
    assert!(made.file_name().to_string_lossy().starts_with("evil-"), "{:?}", made.file_name());
}

/// A command given twice does not destroy the results of the first.
#[test]
fn a_run_that_is_there_is_not_computed_again_by_the_same_command() {
    let folder = folder();
    let before = read(folder.path().join("run/manifest.json"));
    let output = typed(folder.path(), "run|t.toml|-q|-o|run");
    assert_eq!(output.code, 4, "{}", output.err);
    assert_eq!(read(folder.path().join("run/manifest.json")), before);
}

/// Commands that read runs say that a scenario is none, with one code and one advice.
#[test]
fn a_scenario_where_a_run_is_wanted_is_named_as_one() {
    let folder = folder();
    for command in ["replay", "resume", "runs|show", "fork|--after-task|1", "report", "compare"] {
        let output = typed(folder.path(), &format!("{command}|t.toml"));
        assert_eq!(output.code, 2, "{command}: {}", output.err);
        let help = "help: it is a scenario; run it first: `fedcast run t.toml`";
        assert!(output.err.contains(help) && output.out.is_empty(), "{command}: {}", output.err);
        assert!(!output.err.contains("manifest.json"), "{command}: {}", output.err);
    }
}
