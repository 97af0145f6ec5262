//! Promise: files of schema 1 become files of schema 2 with one command, and nothing else in them changes.

use std::fs;

use crate::command::{read, run_fedcast};

const OLD: &str = include_str!("migrate/old.toml");
const NEW: &str = include_str!("migrate/new.toml");
const OLD_STUDY: &str = include_str!("migrate/old.study.toml");
const NEW_STUDY: &str = include_str!("migrate/new.study.toml");

#[test]
fn every_old_name_is_replaced_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.toml"), OLD).unwrap();
    fs::write(path("a.study.toml"), OLD_STUDY).unwrap();
    let files = ["a.toml", "a.study.toml"];

    let check = run_fedcast(folder.path(), &[&["migrate", "--check"][..], &files].concat());
    assert_eq!(check.code, 3, "{}", check.err);
    assert_eq!(read(path("a.toml")), OLD, "--check writes nothing");

    let output = run_fedcast(folder.path(), &[&["migrate"][..], &files].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(output.out.lines().count(), 2);
    assert!(
        output.out.starts_with("a.toml: migrated: schema = 1 -> schema = 2, "),
        "{}",
        output.out
    );
    assert_eq!(output.out, check.out.replace(": would change: ", ": migrated: "));
    assert_eq!(read(path("a.toml")), NEW);
    assert_eq!(read(path("a.study.toml")), NEW_STUDY);

    for arguments in [&["migrate"][..], &["migrate", "--check"]] {
        let again = run_fedcast(folder.path(), &[arguments, &files].concat());
        assert_eq!(again.code, 0, "{}", again.err);
        assert_eq!(again.out, "a.toml: unchanged\na.study.toml: unchanged\n");
    }
    assert_eq!(read(path("a.toml")), NEW);
    let left = fs::read_dir(folder.path()).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".part")
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn a_wrong_file_stays_and_the_others_are_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let wrong = "schema = 1\n[client]\nbatch = 1 6\n";
    fs::write(path("wrong.toml"), wrong).unwrap();
    fs::write(path("base.toml"), "[client]\nbatch = 16\n").unwrap();
    let output =
        run_fedcast(folder.path(), &["migrate", "wrong.toml", "nowhere.toml", "base.toml"]);
    assert_eq!(output.code, 3);
    assert!(output.err.contains("wrong.toml:3:"), "{}", output.err);
    assert!(output.err.contains("nowhere.toml"), "{}", output.err);
    assert_eq!(output.out, "base.toml: migrated: client.batch -> client.batch_size\n");
    assert_eq!(read(path("wrong.toml")), wrong);
    assert_eq!(read(path("base.toml")), "[client]\nbatch_size = 16\n");
}

#[test]
fn programs_read_changes_and_errors_as_json() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), "schema = 1\nlinks.loss = 0.1\n").unwrap();
    fs::write(folder.path().join("b.toml"), "schema = 9\n").unwrap();
    let output = run_fedcast(folder.path(), &["migrate", "a.toml", "b.toml", "--format", "json"]);
    assert_eq!(output.code, 3);
    let answer: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(answer["files"][0]["written"], true);
    assert_eq!(answer["files"][0]["changes"][1]["new"], "links.loss_rate");
    assert_eq!(answer["files"][0]["changes"][1]["line"], 2);
    assert_eq!(answer["files"][1]["errors"][0]["place"]["line"], 1);
    assert_eq!(answer["files"][1]["written"], false);
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("a.toml"), folder.path().join("link.toml"));
    fs::write(&file, "client.batch = 1\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("a.toml", &link).unwrap();
    assert_eq!(run_fedcast(folder.path(), &["migrate", "link.toml"]).code, 0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(read(&file), "client.batch_size = 1\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
}
