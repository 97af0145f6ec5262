//! Ctrl-C ends a run between two events: exit code 130, a valid journal, an honest manifest.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::command::{fedcast, read, tell, tiny};

#[test]
fn an_interrupted_run_leaves_a_journal_that_replays_and_verifies_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = tiny();
    // Far more rounds than anybody would wait for.
    let arguments =
        ["run", tiny.to_str().unwrap(), "-o", "run", "--set", "federation.rounds=100000"];
    let mut child = fedcast(folder.path(), &arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let err = BufReader::new(child.stderr.take().unwrap());
    let mut lines = err.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("round 1 ")), "the first round is told");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.contains("stopping")), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(130));

    let manifest: serde_json::Value =
        serde_json::from_str(&read(folder.path().join("run/manifest.json"))).unwrap();
    assert_eq!(manifest["status"], "interrupted");
    assert!(manifest["digests"].is_null(), "a part has no digest to compare with");

    let replayed = tell(folder.path(), &["replay", "run"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    assert!(replayed.out.contains("The run was interrupted."), "{}", replayed.out);

    let verified = tell(folder.path(), &["replay", "run", "--verify", "-q"]);
    assert_eq!(verified.code, 0, "{}", verified.err);
    assert!(verified.out.contains("the recorded run was interrupted there"), "{}", verified.out);
}
