//! Promise: a run has the same bits on every path of vector instructions, so that it may be begun on one, resumed on
//! another and verified on a third; and a path that cannot be taken is refused before anything is written.
//!
//! Paths are forced by `FEDCAST_ARITHMETIC`. Those that this machine lacks are not checked, and said to be so.

use std::fs;
use std::io::Write;
use std::path::Path;

use fedcast::numerics::vectors::{VARIABLE, Vectors};
use serde_json::Value;

use crate::command::{CommandOutput, fedcast, read, run_command};

/// Few samples through a prompted transformer with prototypes: products of many shapes, forward and backward.
const SMALL: &str = r#"
schema = 2
data = { source = "digits", subset = 4 }
tasks = { sizes = [5, 5] }
partition = { kind = "iid" }
method = { name = "hgp", prompt_len = 4 }
federation = { clients = 2, rounds = 2 }
client = { epochs = 1 }
record = { checkpoint = { every = "round", keep = 9, max_time_fraction = 1.0 } }
"#;

/// Runs `fedcast` on a path.
fn run_fedcast(folder: &Path, path: &str, arguments: &[&str]) -> CommandOutput {
    run_command(fedcast(folder, arguments).env(VARIABLE, path))
}

fn folder_with(scenario: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.toml"), scenario).unwrap();
    folder
}

fn manifest(run: &Path) -> Value {
    serde_json::from_str(&read(run.join("manifest.json"))).unwrap()
}

/// Paths that this machine supports, narrow to wide. The others are reported.
fn paths() -> Vec<&'static str> {
    let all =
        [(Vectors::Baseline, "portable"), (Vectors::Avx2, "avx2"), (Vectors::Avx512, "avx512")];
    let (here, lacks): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(path, _)| *path <= Vectors::of_hardware());
    for (_, word) in lacks {
        // `eprintln!` would be captured.
        let line = format!("not checked: {VARIABLE}={word} (this machine has no such vectors)\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    here.into_iter().map(|(_, word)| word).collect()
}

#[test]
fn every_path_gives_the_same_digests() {
    let folder = folder_with(SMALL);
    let digests = |path: &&'static str| {
        let ran = run_fedcast(folder.path(), path, &["run", "small.toml", "-q", "-o", path]);
        assert_eq!(ran.code, 0, "{path}: {}", ran.err);
        let manifest = manifest(&folder.path().join(path));
        assert_eq!(manifest["machine"]["vectors"], *path);
        assert_eq!(manifest["level"], "N");
        (*path, manifest["digests"].clone())
    };
    let found: Vec<(&str, Value)> = paths().iter().map(digests).collect();
    for (path, digests) in &found {
        assert_eq!(digests, &found[0].1, "{path} against {}", found[0].0);
    }
}

/// Leaves of a whole run what a kill soon after its first round would have left.
fn cut(run: &Path) {
    let mut manifest = manifest(run);
    let fields = manifest.as_object_mut().unwrap();
    fields.insert("status".into(), "running".into());
    fields.remove("digests");
    fields.remove("events");
    fs::write(run.join("manifest.json"), manifest.to_string()).unwrap();
    let entries = fs::read_dir(run.join("checkpoints")).unwrap();
    let mut kept: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    kept.sort();
    assert!(kept.len() >= 3, "{kept:?}");
    kept[1..].iter().for_each(|file| fs::remove_file(file).unwrap());
}

#[test]
fn a_run_goes_from_path_to_path_with_the_same_digests() {
    let folder = folder_with(SMALL);
    let folder = folder.path();
    let paths = paths();
    let widest = *paths.last().expect("every machine has the portable one");
    let between = paths.iter().copied().find(|path| *path == "avx2").unwrap_or(widest);

    let ran = run_fedcast(folder, widest, &["run", "small.toml", "-q", "-o", "run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let first = manifest(&folder.join("run"));
    cut(&folder.join("run"));
    let resumed = run_fedcast(folder, between, &["resume", "run", "-q"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert!(resumed.err.contains("resuming after round"), "{}", resumed.err);
    let ended = manifest(&folder.join("run"));
    assert_eq!((&ended["status"], &ended["resumed"]), (&"done".into(), &1.into()));
    assert_eq!(ended["digests"], first["digests"], "{between} after {widest}");
    let verified = run_fedcast(folder, "portable", &["replay", "run", "--verify", "-q"]);
    assert_eq!(verified.code, 0, "{}\n{}", verified.out, verified.err);
    assert!(verified.out.contains("identical"), "{}", verified.out);
}

#[test]
fn features_of_one_path_serve_another() {
    let scenario =
        SMALL.replace("record =", "cache = { features = \"file\", folder = \"cache\" }\nrecord =");
    let folder = folder_with(&scenario);
    let folder = folder.path();
    let head = ["--set", r#"method={name="fedavg",train="head"}"#];
    let stored = || {
        let files = fs::read_dir(folder.join("cache")).unwrap();
        let mut names: Vec<_> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".features"))
            .collect();
        names.sort();
        names
    };
    let mut found = Vec::new();
    for path in paths().into_iter().rev() {
        let arguments = [&["run", "small.toml", "-q", "-o", path], &head[..]].concat();
        let ran = run_fedcast(folder, path, &arguments);
        assert_eq!(ran.code, 0, "{}", ran.err);
        found.push((manifest(&folder.join(path))["digests"].clone(), stored()));
    }
    assert!(!found[0].1.is_empty());
    assert!(found.iter().all(|each| *each == found[0]), "{found:?}");
}

#[test]
fn a_path_that_is_not_there_is_a_wrong_usage() {
    let folder = folder_with(SMALL);
    let run = ["run", "small.toml", "-q", "-o", "run"];
    let output = run_fedcast(folder.path(), "sse9", &run);
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(
        output.err.starts_with("error: FEDCAST_ARITHMETIC: unknown path `sse9`"),
        "{}",
        output.err
    );
    assert!(output.err.contains("`portable`, `avx2` or `avx512`"), "{}", output.err);
    assert!(!folder.path().join("run").exists());

    let json = run_fedcast(folder.path(), "sse9", &[&run[..], &["--format", "json"]].concat());
    let document: Value = serde_json::from_str(&json.err).expect("one document");
    assert_eq!((json.code, &document["error"]["exit"]), (2, &2.into()));

    if Vectors::of_hardware() < Vectors::Avx512 {
        let output = run_fedcast(folder.path(), "avx512", &run);
        assert_eq!(output.code, 2, "{}", output.err);
        let widest = Vectors::of_hardware();
        assert!(output.err.contains(&format!("widest path is `{widest}`")), "{}", output.err);
        assert!(!folder.path().join("run").exists());
    }
}

#[test]
fn the_doctor_says_which_path_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(folder.path(), "portable", &["doctor"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let line = |word: &str| {
        let mut lines = output.out.lines();
        lines.find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("{}", output.out))
    };
    assert!(line("vectors").contains("portable") && line("vectors").contains("slow"));
    assert!(line("arithmetic").contains("denormals are kept"));
    let json = run_fedcast(folder.path(), "portable", &["doctor", "--format", "json"]);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (&json["machine"]["vectors"], &json["denormals_kept"]),
        (&"portable".into(), &true.into())
    );
}

#[test]
fn a_run_of_an_older_arithmetic_is_not_resumed_unless_forced() {
    let folder = folder_with(SMALL);
    let folder = folder.path();
    let ran = run_fedcast(folder, "", &["run", "small.toml", "-q", "-o", "run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    cut(&folder.join("run"));
    // As manifests were before arithmetic had a name.
    let mut old = manifest(&folder.join("run"));
    let machine = old["machine"].as_object_mut().unwrap();
    machine.remove("arithmetic");
    machine.remove("vectors");
    machine.insert("gemm".into(), "x86-v4 (avx512f)".into());
    fs::write(folder.join("run/manifest.json"), old.to_string()).unwrap();
    let output = run_fedcast(folder, "", &["resume", "run", "-q"]);
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("numbers that depend on the CPU"), "{}", output.err);
    assert!(output.err.contains("--force"), "{}", output.err);
    let forced = run_fedcast(folder, "", &["resume", "run", "-q", "--force"]);
    assert_eq!(forced.code, 0, "{}", forced.err);
}
