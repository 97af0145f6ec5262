//! Promise: `plan --estimate` says what a run will take of this machine, keeps what it measured, and `run` says how good
//! that was.

use std::path::Path;

use serde_json::Value;

use crate::command::{read, run_fedcast, tiny, tiny_run};

fn estimate(folder: &Path, more: &[&str]) -> Value {
    let tiny = tiny();
    let mut arguments =
        vec!["plan", tiny.to_str().unwrap(), "--estimate", "--workers", "1", "--format", "json"];
    arguments.extend(more);
    let output = run_fedcast(folder, &arguments);
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str::<Value>(&output.out).unwrap()["estimate"].clone()
}

#[test]
fn costs_are_measured_once_and_printed_as_text_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let first = estimate(folder.path(), &[]);
    let number = |of: &Value, name: &str| of[name].as_f64().expect(name);
    assert!(number(&first, "wall_s") > 0.0 && number(&first["costs"], "passes") > 0.0);
    assert!(number(&first["costs"], "tested") > 0.0 && number(&first, "disk") > 0.0);
    // The same costs, not measured again; more rounds of the same work cost more.
    assert_eq!(estimate(folder.path(), &[])["costs"], first["costs"]);
    let longer = estimate(folder.path(), &["--set", "federation.rounds=8"]);
    assert_eq!(longer["costs"], first["costs"]);
    assert!(number(&longer, "wall_s") > number(&first, "wall_s"));
    let again = estimate(folder.path(), &["--measure-again"]);
    assert_ne!(again["costs"]["took_s"], first["costs"]["took_s"]);

    let tiny = tiny();
    let output = run_fedcast(
        folder.path(),
        &["plan", tiny.to_str().unwrap(), "--estimate", "--workers", "1"],
    );
    for line in [
        "\nwall time     about ",
        "\nmemory        about ",
        "\ndisk          about ",
        "\nmeasured      ",
    ] {
        assert!(output.out.contains(line), "{line}: {}", output.out);
    }
    assert!(!folder.path().join("runs").exists(), "a trial writes no run");
}

#[test]
fn a_run_that_was_estimated_says_how_good_that_was() {
    let folder = tempfile::tempdir().unwrap();
    let output = tiny_run(folder.path(), &["--workers", "1"]);
    assert!(!output.out.contains("estimate"), "nothing was estimated: {}", output.out);
    let digests =
        |text: &str| text.lines().find(|line| line.starts_with("digests")).map(str::to_owned);
    let before = digests(&output.out);
    estimate(folder.path(), &[]);
    let output = tiny_run(folder.path(), &["--workers", "1", "--force"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let line = output.out.lines().find(|line| line.starts_with("estimate    ")).expect("a line");
    assert!(line.contains(" s, the run took "), "{line}");
    assert_eq!(digests(&output.out), before, "a trial leaves nothing behind");
    assert!(read(folder.path().join("caches/costs.json")).contains("pass_s"));
}
