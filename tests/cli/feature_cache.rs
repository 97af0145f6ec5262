//! Promises: what is frozen is computed once; where it is kept changes no number of a run.

use std::path::Path;

use crate::command::{read, run_fedcast};
use serde_json::Value;

/// Head-only training on the embedded transformer: every pass reads features.
const HEAD: &str = r#"
schema = 2
data = { source = "digits", subset = 10 }
tasks = { count = 2 }
partition = { kind = "dirichlet", beta = 1.0, min_samples = 1 }
method = { name = "fedavg", train = "head" }
federation = { clients = 4, rounds = 2 }
client = { epochs = 2, batch_size = 8 }
"#;

const HGP: &str = r#"method={name="hgp", train="head"}"#;

/// Digests of a run with these overrides.
fn digests(folder: &Path, sets: &[&str], workers: &str) -> Value {
    std::fs::write(folder.join("head.toml"), HEAD).unwrap();
    let mut arguments =
        vec!["run", "head.toml", "-q", "-o", "run", "--force", "--workers", workers];
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    let output = run_fedcast(folder, &arguments);
    assert_eq!((output.code, output.err.as_str()), (0, ""));
    let manifest: Value = serde_json::from_str(&read(folder.join("run/manifest.json"))).unwrap();
    manifest["digests"].clone()
}

fn features(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".features")).count()
}

#[test]
fn memory_file_cold_warm_and_any_number_of_workers_agree() {
    let folder = tempfile::tempdir().unwrap();
    let in_file = r#"cache={features="file", folder="cache"}"#;
    for method in ["client.epochs=2", HGP] {
        let memory = digests(folder.path(), &[method], "1");
        let cold = digests(folder.path(), &[method, in_file], "3");
        let warm = digests(folder.path(), &[method, in_file], "8");
        assert_eq!((&cold, &warm), (&memory, &memory), "{method}");
        for other in [r#"cache.features="off""#, "cache.limit_mb=1"] {
            assert_eq!(digests(folder.path(), &[method, other], "2"), memory, "{method} {other}");
        }
    }
    let memory = |workers| digests(folder.path(), &[], workers);
    assert_eq!(memory("2"), memory("3"));
    // The train and the test split; both methods see the same.
    assert_eq!(features(&folder.path().join("cache")), 2);
}

#[test]
fn random_transforms_are_never_kept() {
    let folder = tempfile::tempdir().unwrap();
    let sets = ["data.train.flip=0.5", r#"cache={features="file", folder="cache"}"#];
    digests(folder.path(), &sets, "2");
    assert_eq!(features(&folder.path().join("cache")), 1, "the test split only");
}

#[test]
fn a_damaged_file_is_reported_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let sets = [r#"cache={features="file", folder="cache"}"#];
    let whole = digests(folder.path(), &sets, "1");
    let cache = folder.path().join("cache");
    for entry in std::fs::read_dir(&cache).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "features") {
            std::fs::write(&path, "cut off").unwrap();
        }
    }
    let output = run_fedcast(
        folder.path(),
        &["run", "head.toml", "-q", "-o", "run", "--force", "--set", sets[0]],
    );
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(output.err.matches("it is computed again").count(), 2, "{}", output.err);
    let manifest: Value =
        serde_json::from_str(&read(folder.path().join("run/manifest.json"))).unwrap();
    assert_eq!(manifest["digests"], whole);
}

#[test]
fn a_folder_that_cannot_be_used_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("head.toml"), HEAD).unwrap();
    let set = r#"cache={features="file", folder="head.toml"}"#;
    let output = run_fedcast(folder.path(), &["run", "head.toml", "-q", "-o", "run", "--set", set]);
    assert_eq!(output.code, 6, "{}", output.err);
    assert!(output.err.contains("head.toml: cannot make the folder"), "{}", output.err);
}

#[test]
fn keys_are_checked_and_plan_needs_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("head.toml"), HEAD).unwrap();
    let check = |set: &str| {
        let output = run_fedcast(folder.path(), &["check", "head.toml", "--set", set]);
        (output.code, output.err)
    };
    for (set, why) in [
        ("cache.features=file", "`features = \"file\"` needs `folder`"),
        ("cache.folder=x", "`folder` has no meaning with `features = \"memory\"`"),
        ("cache={features=\"off\",tokens=true}", "`cache.tokens` has no meaning with"),
        ("cache={features=\"off\",limit_mb=2000}", "`cache.limit_mb` has no meaning with"),
        ("cache={features=\"off\",folder=\"x\"}", "`cache.folder` has no meaning with"),
        ("cache.limit_mb=0", "`cache.limit_mb` must be"),
        ("cache.feature=off", "did you mean `features`?"),
    ] {
        let (code, err) = check(set);
        assert!(code == 3 && err.contains(why), "{set}: {err}");
    }
    // What an effective scenario says of a run without caches.
    let (code, err) = check("cache={features=\"off\",limit_mb=1000,tokens=false}");
    assert_eq!(code, 0, "{err}");
    let set = r#"cache={features="file", folder="absent"}"#;
    let output = run_fedcast(folder.path(), &["plan", "head.toml", "--set", set]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(!folder.path().join("absent").exists());
}
