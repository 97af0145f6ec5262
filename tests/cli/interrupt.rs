//! Ctrl-C, SIGTERM and SIGHUP end a run between two events: exit code 130, a valid journal, an honest manifest.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{fedcast, read, run_fedcast, tiny};

/// Starts a run of far more rounds than anybody would wait for, and sends it a signal after its first round.
fn stopped_by(signal: &str, folder: &Path) {
    let tiny = tiny();
    let arguments =
        ["run", tiny.to_str().unwrap(), "-o", "run", "--set", "federation.rounds=100000"];
    let mut command = heeding(fedcast(folder, &arguments));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let err = BufReader::new(child.stderr.take().unwrap());
    let mut lines = err.lines().map(Result::unwrap);
    let mut before = Vec::new();
    let has_started = lines.by_ref().any(|line| {
        before.push(line);
        before.last().is_some_and(|line| line.contains("round 1 "))
    });
    assert!(has_started, "no first round, but {before:?}");
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let rest: Vec<String> = lines.collect();
    assert!(rest.iter().any(|line| line.contains("stopping")), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
}

/// Returns a command that heeds SIGHUP.
///
/// Tests that were started by `nohup` ignore it, and so would their children: `env` of GNU (8.31) resets it.
fn heeding(command: Command) -> Command {
    if !ignores_hangup() {
        return command;
    }
    let mut reset = Command::new("env");
    reset.arg("--default-signal=HUP").arg(command.get_program()).args(command.get_args());
    reset.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => reset.env(name, value),
            None => reset.env_remove(name),
        };
    }
    reset
}

/// Returns true if this process ignores SIGHUP, and so do its children.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signal 1.
    mask.is_some_and(|mask| mask & 1 == 1)
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
        let replayed = run_fedcast(folder.path(), &["replay", "run"]);
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
    let output =
        Command::new("sh").args(["-c", &line]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_interrupted_run_leaves_a_journal_that_replays_and_verifies_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    stopped_by("-INT", folder.path());
    assert_eq!(status(folder.path()), "interrupted");

    let replayed = run_fedcast(folder.path(), &["replay", "run"]);
    assert_eq!(replayed.code, 0, "{}", replayed.err);
    assert!(replayed.out.contains("The run was interrupted."), "{}", replayed.out);

    let verified = run_fedcast(folder.path(), &["replay", "run", "--verify", "-q"]);
    assert_eq!(verified.code, 0, "{}", verified.err);
    assert!(verified.out.contains("the recorded run was interrupted there"), "{}", verified.out);
}
