//! Promise: a scenario or a run directory of other origin cannot hang, fill or deface this machine: what it names is
//! a regular file of bounded size or an error, links are not written through, and no message carries
//! what is in a file that is no table, or what would change a terminal.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::command::{CommandOutput, read, run_fedcast, tiny, tiny_run};

fn check(folder: &Path, set: &str) -> CommandOutput {
    let output = run_fedcast(folder, &["check", tiny().to_str().unwrap(), "--set", set]);
    assert_eq!(output.code, 3, "{set}: {}", output.err);
    output
}

#[test]
fn devices_pipes_and_numbers_without_end_are_refused_by_check() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap().success());
    for file in ["/dev/zero", "pipe"] {
        let output = check(folder, &format!("availability={{kind=\"trace\",file=\"{file}\"}}"));
        assert!(output.err.contains("not a regular file"), "{}", output.err);
        let output = run_fedcast(folder, &["check", file]);
        assert_eq!(output.code, 3, "{}", output.err);
    }
    let endless = ["federation.clients=4294967295", "federation.idle_clients=10000000"];
    let endless =
        endless.iter().chain(&["federation.load_clients=1000000", "federation.rounds=4000000000"]);
    for set in endless.chain(&[
        "tasks={count=20000}",
        "time.slowness=inf",
        "client.optimizer={kind=\"sgd\",lr=inf}",
    ]) {
        check(folder, set);
    }
}

#[test]
fn a_clock_that_comes_to_its_end_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let slow = ["--set", "time.ms_per_sample=1", "--set", "time.slowness=1e300"];
    let output = tiny_run(folder.path(), &slow);
    assert_eq!(output.code, 3, "{}", output.err);
    assert!(output.err.contains("the virtual clock ended after 584 years"), "{}", output.err);
}

#[test]
fn errors_are_bounded_and_reveal_no_foreign_contents() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let keys: String = (0..20_000).map(|i| format!("key{i} = 1\n")).collect();
    fs::write(folder.join("many.toml"), format!("{keys}{}", read(tiny()))).unwrap();
    let output = run_fedcast(folder, &["check", "many.toml"]);
    assert_eq!(output.err.matches("unknown key").count(), 50);
    assert!(output.err.contains("19950 more errors"), "{}", output.err);
    fs::write(folder.join("long.toml"), format!("{} = 1\n{}", "a".repeat(500_000), read(tiny())))
        .unwrap();
    let output = run_fedcast(folder, &["check", "long.toml"]);
    assert!(output.code == 3 && output.err.len() < 5_000, "{} bytes", output.err.len());

    fs::write(folder.join("secret"), "root:$6$abc/def:19000:0\nTOKEN=xyz\n").unwrap();
    let output = check(folder, "availability={kind=\"trace\",file=\"secret\"}");
    assert!(!output.err.contains("abc") && !output.err.contains("xyz"), "{}", output.err);
    assert!(output.err.contains("secret:1:1"), "{}", output.err);
}

#[test]
fn a_terminal_gets_no_control_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let output = tiny_run(folder.path(), &["--set", "name=\"\\u001b]0;title\\u0007\""]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(!output.out.contains(['\u{1b}', '\u{7}']), "{:?}", output.out);
    let output = check(folder.path(), "name=\"\u{1b}[2J\"");
    assert!(!output.err.contains('\u{1b}'), "{:?}", output.err);
}

#[test]
fn nothing_is_written_through_links_or_over_files_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(tiny_run(folder, &[]).code, 0);
    let manifest = folder.join("run/manifest.json");
    fs::write(&manifest, read(&manifest).replace("\"done\"", "\"running\"")).unwrap();
    fs::write(folder.join("victim"), "precious").unwrap();
    fs::remove_file(folder.join("run/rounds.csv")).unwrap();
    symlink(folder.join("victim"), folder.join("run/rounds.csv")).unwrap();
    let output = run_fedcast(folder, &["resume", "run", "-q"]);
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("is a link"), "{}", output.err);
    fs::remove_file(folder.join("run/rounds.csv")).unwrap();
    symlink(folder.join("victim"), folder.join("run/manifest.json.part")).unwrap();
    assert_eq!(run_fedcast(folder, &["resume", "run", "-q"]).code, 0);
    assert_eq!(read(folder.join("victim")), "precious");
}
