//! Ctrl-C, SIGTERM and SIGHUP end a run between two events: exit code 130, a valid journal, an honest manifest.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{fedcast, read, tell, tiny};

/// Starts a run of far more rounds than anybody would wait for, and sends it a signal after its first round.
fn stopped_by(signal: &str, folder: &Path) {
    let tiny = tiny();
    let arguments =
        ["run", tiny.to_str().unwrap(), "-o", "run", "--set", "federation.rounds=100000"];
    let mut child =
        fedcast(folder, &arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let err = BufReader::new(child.stderr.take().unwrap());
    let mut lines = err.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("round 1 ")), "the first round is told");
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.contains("stopping")), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
}

fn status(folder: &Path) -> serde_json::Value {
    let text = read(folder.join("run/manifest.json"));
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(manifest["digests"].is_null(), "a part has no digest to compare with");
    manifest["status"].clone()
}

#[test]
fn a_scheduler_and_a_closed_terminal_stop_a_run_as_its_user_does() {
    for signal in ["-TERM", "-HUP"] {
        let folder = tempfile::tempdir().unwrap();
        stopped_by(signal, folder.path());
        assert_eq!(status(folder.path()), "interrupted", "{signal}");
        let replayed = tell(folder.path(), &["replay", "run"]);
        assert_eq!(replayed.code, 0, "{}", replayed.err);
    }
}

/// `nohup` starts a program that does not mind when its terminal goes.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_shall_survive_its_terminal_does() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "trap '' HUP; '{}' run '{}' -q -o run --set federation.rounds=30 & run=$!; \
         while [ ! -s run/events.jsonl ]; do sleep 0.01; done; kill -HUP $run; wait $run",
        env!("CARGO_BIN_EXE_fedcast"),
        tiny().display()
    );
    let told = Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().unwrap();
    assert_eq!(told.status.code(), Some(0), "{}", String::from_utf8_lossy(&told.stderr));
}

#[test]
fn an_interrupted_run_leaves_a_journal_that_replays_and_verifies_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    stopped_by("-INT", folder.path());
    assert_eq!(status(folder.path()), "interrupted");

    let replayed = tell(folder.path(), &["replay", "run"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    assert!(replayed.out.contains("The run was interrupted."), "{}", replayed.out);

    let verified = tell(folder.path(), &["replay", "run", "--verify", "-q"]);
    assert_eq!(verified.code, 0, "{}", verified.err);
    assert!(verified.out.contains("the recorded run was interrupted there"), "{}", verified.out);
}
