//! The program is killed with SIGKILL at many moments.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{LOGISTIC, same_results};
use crate::command::{fedcast, run_fedcast};

/// Starts `arguments` and kills it once the journal has this number of lines, or lets it end before.
fn kill_at(folder: &Path, arguments: &[&str], lines: usize) {
    let mut child =
        fedcast(folder, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        let journal = fs::read(folder.join("run/events.jsonl")).unwrap_or_default();
        if journal.iter().filter(|byte| **byte == b'\n').count() >= lines {
            child.kill().unwrap();
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it hangs");
        sleep(Duration::from_micros(200));
    }
    child.wait().unwrap();
}

fn killed_at(more: &str, moments: &[usize]) {
    scenario_killed_at(&format!("{LOGISTIC}{more}"), moments);
}

fn scenario_killed_at(scenario: &str, moments: &[usize]) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), scenario).unwrap();
    let whole = run_fedcast(folder.path(), &["run", "a.toml", "-q", "-o", "whole"]);
    assert_eq!(whole.code, 0, "{}", whole.err);
    for lines in moments {
        let _ = fs::remove_dir_all(folder.path().join("run"));
        kill_at(folder.path(), &["run", "a.toml", "-q", "-o", "run"], *lines);
        // Killed again while it goes on, with other workers.
        kill_at(folder.path(), &["resume", "run", "-q", "--workers", "1"], 2 * lines);
        let resumed = run_fedcast(folder.path(), &["resume", "run", "-q", "--workers", "3"]);
        assert!(resumed.code == 0 || resumed.code == 4, "{lines}: {}", resumed.err);
        same_results(&folder.path().join("whole"), &folder.path().join("run"));
    }
}

#[test]
fn a_synchronous_run_killed_anywhere_ends_as_if_it_had_not_been() {
    killed_at("", &[1, 30, 77, 140, 260]);
}

#[test]
fn so_does_one_with_deadlines_and_late_updates() {
    let late = "round = { close = \"deadline\", deadline_s = 1.5, late = \"aggregate\", staleness_exponent = 1.0 }\n";
    killed_at(late, &[40, 90, 170]);
}

#[test]
fn so_does_an_asynchronous_one() {
    let buffer = "round = { close = \"buffer\", buffer_size = 2 }\n\
                  participation = { kind = \"count\", count = 4 }\n";
    killed_at(buffer, &[35, 80, 120]);
}

/// FedLwF-2T: every client keeps its own models.
#[test]
fn so_does_one_whose_clients_remember() {
    scenario_killed_at(&LOGISTIC.replace("\"fedavg\"", "\"fedlwf-2t\""), &[60, 150, 240, 300]);
}

#[test]
fn a_resumed_run_verifies_and_is_over() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), LOGISTIC).unwrap();
    kill_at(folder.path(), &["run", "a.toml", "-q", "-o", "run"], 100);
    let resumed = run_fedcast(folder.path(), &["resume", "run"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert!(resumed.err.contains("resuming after round"), "{}", resumed.err);
    assert!(!resumed.err.contains("  round 1 "), "nothing is told twice: {}", resumed.err);
    assert_eq!(run_fedcast(folder.path(), &["replay", "run", "--verify", "-q"]).code, 0);
    let again = run_fedcast(folder.path(), &["resume", "run"]);
    assert_eq!(again.code, 4, "{}", again.err);
    assert!(again.err.contains("is complete"), "{}", again.err);
}
