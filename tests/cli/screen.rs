//! Promise: texts on stdout fit the screen, whose width `COLUMNS` gives here as a terminal does otherwise, and say the same
//! words; without a screen, and as JSON, nothing is broken.

use std::path::Path;

use crate::command::{fedcast, tiny};

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command for a screen and returns what it prints.
fn printed(folder: &Path, arguments: &[&str], columns: Option<&str>) -> String {
    let mut command = fedcast(folder, arguments);
    if let Some(columns) = columns {
        command.env("COLUMNS", columns);
    }
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

fn words(text: &str) -> Vec<String> {
    let words = text.split_whitespace().filter(|word| !word.contains('─'));
    let mut words: Vec<String> = words.map(str::to_owned).collect();
    words.sort();
    words.dedup();
    words
}

/// Commands that need no run, with the words of each at 80 columns.
#[test]
fn texts_fit_80_columns_and_lose_no_word() {
    let folder = tempfile::tempdir().unwrap();
    let quickstart = root().join("scenarios/quickstart.toml");
    let study = root().join("scenarios/studies/stragglers.study.toml");
    let (quickstart, study) = (quickstart.to_str().unwrap(), study.to_str().unwrap());
    for arguments in [
        &["plan", quickstart][..],
        &["plan", quickstart, "--partition"],
        &["study", study, "--plan"],
        &["keys"],
        &["keys", "client"],
        &["methods"],
        &["methods", "show", "hgp"],
        &["columns"],
        &["columns", "rounds.csv"],
        &["fetch", "--list"],
    ] {
        let narrow = printed(folder.path(), arguments, Some("80"));
        // A word that is longer than its room stays whole.
        let wide = |line: &&str| line.chars().count() > 80 && line.trim().contains(' ');
        let wide: Vec<&str> = narrow.lines().filter(wide).collect();
        assert!(wide.is_empty(), "{arguments:?}: {wide:#?}");
        let whole = printed(folder.path(), arguments, None);
        assert_eq!(words(&narrow), words(&whole), "{arguments:?}");
    }
}

#[test]
fn a_plan_for_80_columns_goes_on_below() {
    let folder = tempfile::tempdir().unwrap();
    let quickstart = root().join("scenarios/quickstart.toml");
    let text = printed(folder.path(), &["plan", quickstart.to_str().unwrap()], Some("80"));
    insta::assert_snapshot!("plan_for_80_columns", text);
    let methods = printed(folder.path(), &["methods", "show", "fedavg"], Some("80"));
    insta::assert_snapshot!("method_for_80_columns", methods);
    let columns = printed(folder.path(), &["columns", "client_tasks.csv"], Some("80"));
    insta::assert_snapshot!("columns_for_80_columns", columns);
    let keys = printed(folder.path(), &["keys", "round"], Some("80"));
    insta::assert_snapshot!("keys_for_80_columns", keys);
}

/// The list of runs leaves out what has no room, and says so; JSON has everything at any width.
#[test]
fn runs_leave_out_columns_and_say_which() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = tiny();
    let out = "runs/a-directory-with-a-name-that-leaves-little-room";
    let run = ["run", scenario.to_str().unwrap(), "-q", "-o", out];
    let final_table = printed(folder.path(), &run, Some("80"));
    assert!(final_table.lines().all(|line| line.chars().count() <= 80), "{final_table}");
    let listed = printed(folder.path(), &["runs"], Some("80"));
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    let line = listed.lines().find(|line| line.starts_with("left out for lack of room: "));
    let line = line.unwrap_or_else(|| panic!("{listed}"));
    assert!(line.ends_with("on disk, age") && !line.contains("method"), "{line}");
    assert!(!printed(folder.path(), &["runs"], None).contains("left out"));
    let json = |columns| printed(folder.path(), &["runs", "--format", "json"], columns);
    let (narrow, whole) = (json(Some("40")), json(None));
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&narrow)["runs"][0]["name"], value(&whole)["runs"][0]["name"]);
}
