//! Promise: a scenario or a run directory of other origin cannot hang, fill or deface this machine: what it names is
//! a regular file of bounded size or an error, links are not written through, and no message carries
//! what is in a file that is no table, or what would change a terminal.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::command::{Told, read, tell, tiny, tiny_run};

fn check(folder: &Path, set: &str) -> Told {
    let told = tell(folder, &["check", tiny().to_str().unwrap(), "--set", set]);
    assert_eq!(told.code, 3, "{set}: {}", told.err);
    told
}

#[test]
fn devices_pipes_and_numbers_without_end_are_refused_by_check() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap().success());
    for file in ["/dev/zero", "pipe"] {
        let told = check(folder, &format!("availability={{kind=\"trace\",file=\"{file}\"}}"));
        assert!(told.err.contains("not a regular file"), "{}", told.err);
        let told = tell(folder, &["check", file]);
        assert_eq!(told.code, 3, "{}", told.err);
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
    let told = tiny_run(folder.path(), &slow);
    assert_eq!(told.code, 3, "{}", told.err);
    assert!(told.err.contains("the virtual clock ended after 584 years"), "{}", told.err);
}

#[test]
fn errors_have_an_end_and_keep_what_is_not_theirs_to_tell() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let keys: String = (0..20_000).map(|i| format!("key{i} = 1\n")).collect();
    fs::write(folder.join("many.toml"), format!("{keys}{}", read(tiny()))).unwrap();
    let told = tell(folder, &["check", "many.toml"]);
    assert_eq!(told.err.matches("unknown key").count(), 50);
    assert!(told.err.contains("19950 more errors"), "{}", told.err);
    fs::write(folder.join("long.toml"), format!("{} = 1\n{}", "a".repeat(500_000), read(tiny())))
        .unwrap();
    let told = tell(folder, &["check", "long.toml"]);
    assert!(told.code == 3 && told.err.len() < 5_000, "{} bytes", told.err.len());

    fs::write(folder.join("secret"), "root:$6$abc/def:19000:0\nTOKEN=xyz\n").unwrap();
    let told = check(folder, "availability={kind=\"trace\",file=\"secret\"}");
    assert!(!told.err.contains("abc") && !told.err.contains("xyz"), "{}", told.err);
    assert!(told.err.contains("secret:1:1"), "{}", told.err);
}

#[test]
fn a_terminal_is_never_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let told = tiny_run(folder.path(), &["--set", "name=\"\\u001b]0;title\\u0007\""]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(!told.out.contains(['\u{1b}', '\u{7}']), "{:?}", told.out);
    let told = check(folder.path(), "name=\"\u{1b}[2J\"");
    assert!(!told.err.contains('\u{1b}'), "{:?}", told.err);
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
    let told = tell(folder, &["resume", "run", "-q"]);
    assert_eq!(told.code, 2, "{}", told.err);
    assert!(told.err.contains("is a link"), "{}", told.err);
    fs::remove_file(folder.join("run/rounds.csv")).unwrap();
    symlink(folder.join("victim"), folder.join("run/manifest.json.part")).unwrap();
    assert_eq!(tell(folder, &["resume", "run", "-q"]).code, 0);
    assert_eq!(read(folder.join("victim")), "precious");
}
