//! Promise: the program describes itself: keys for people, a schema for editors, completions for shells, manual pages.

use std::fs;

use crate::command::{read, run_fedcast};

#[test]
fn a_section_is_explained_with_values_conditions_and_sources() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(folder.path(), &["keys", "participation"]);
    assert_eq!(output.code, 0, "{}", output.err);
    insta::assert_snapshot!(output.out);
    let one = run_fedcast(folder.path(), &["keys", "client.optimizer.momentum"]);
    assert!(one.out.contains("only with client.optimizer.kind = sgd"), "{}", one.out);
}

#[test]
fn all_keys_are_listed_with_defaults_and_methods_have_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let all = run_fedcast(folder.path(), &["keys"]);
    for must in ["[federation]", "federation.clients", "partition.beta", "faults.kind", "[record]"]
    {
        assert!(all.out.contains(must), "{must}");
    }
    for output in [&all, &run_fedcast(folder.path(), &["columns"])] {
        let widest = output.out.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= 100), "{widest:?}");
    }
    let hgp = run_fedcast(folder.path(), &["keys", "method.hgp", "--format", "json"]);
    let keys: serde_json::Value = serde_json::from_str(&hgp.out).unwrap();
    let of = |name: &str| {
        keys["keys"].as_array().unwrap().iter().find(|key| key["key"] == name).cloned()
    };
    assert_eq!(of("method.prompt_len").unwrap()["default"], "200");
    assert!(of("method.width").is_none(), "that is stsa's");
}

#[test]
fn keys_of_studies_and_single_columns_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let study = run_fedcast(folder.path(), &["keys", "study"]);
    assert_eq!(study.code, 0, "{}", study.err);
    for must in ["replicates   (", "report.series   (", "compare.metrics   (", "[axes.NAME]"] {
        assert!(study.out.contains(must), "{must}: {}", study.out);
    }
    assert!(!study.out.contains("federation.clients   ("));
    let report = run_fedcast(folder.path(), &["keys", "study.report"]);
    assert!(
        report.out.starts_with("report.") && !report.out.contains("replicates"),
        "{}",
        report.out
    );
    let column = run_fedcast(folder.path(), &["columns", "bytes_up", "--format", "json"]);
    let files: serde_json::Value = serde_json::from_str(&column.out).unwrap();
    let names: Vec<&str> = files["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"rounds.csv") && !names.contains(&"matrix.csv"), "{names:?}");
    let columns = |file: &serde_json::Value| file["columns"].as_array().unwrap().len();
    assert!(files["files"].as_array().unwrap().iter().all(|file| columns(file) == 1));
}

#[test]
fn a_key_in_the_wrong_place_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let lost = run_fedcast(folder.path(), &["keys", "epochs"]);
    assert_eq!(lost.code, 2);
    assert!(lost.err.contains("did you mean client.epochs?"), "{}", lost.err);
    let renamed = run_fedcast(folder.path(), &["keys", "client.batch"]);
    let line = "help: `client.batch` is called `client.batch_size` since schema 2";
    assert!(renamed.code == 2 && renamed.err.contains(line), "{}", renamed.err);
    let near = run_fedcast(folder.path(), &["keys", "participations"]);
    assert!(near.err.contains("did you mean `participation`?"), "{}", near.err);
}

#[test]
fn schemas_completions_and_manual_pages_are_written() {
    let folder = tempfile::tempdir().unwrap();
    for of in ["scenario", "study"] {
        let schema = run_fedcast(folder.path(), &["schema", of]);
        let schema: serde_json::Value = serde_json::from_str(&schema.out).unwrap();
        assert_eq!(schema["type"], "object", "{of}");
    }
    for (shell, word) in
        [("bash", "complete "), ("zsh", "#compdef"), ("fish", "complete -c fedcast")]
    {
        let script = run_fedcast(folder.path(), &["completions", shell]);
        assert!(script.out.contains(word) && script.out.contains("doctor"), "{shell}");
    }
    let man = run_fedcast(folder.path(), &["man", "--out", "man/man1"]);
    assert_eq!(man.code, 0, "{}", man.err);
    for page in ["fedcast.1", "fedcast-run.1", "fedcast-methods-show.1"] {
        assert!(read(folder.path().join("man/man1").join(page)).contains(".TH"), "{page}");
    }
    let page = run_fedcast(folder.path(), &["man"]);
    assert!(page.out.contains(".TH fedcast 1") && page.code == 0, "{}", page.err);
    fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(run_fedcast(folder.path(), &["man", "--out", "file/x"]).code, 2);
}

#[test]
fn a_doctor_lists_what_is_there_and_needs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("weights")).unwrap();
    fs::write(folder.path().join("weights/vit.safetensors"), vec![0; 1_500_000]).unwrap();
    let output = run_fedcast(folder.path(), &["doctor"]);
    assert_eq!(output.code, 0, "{}", output.err);
    for word in ["processor", "vectors", "arithmetic", "memory", "gpus", "disk", "caches", "data"] {
        assert!(output.out.lines().any(|line| line.starts_with(word)), "{word}\n{}", output.out);
    }
    assert!(output.out.contains("vit.safetensors 1.50 MB"), "{}", output.out);
    let json = run_fedcast(folder.path(), &["doctor", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["weights"][0]["bytes"], 1_500_000);
    assert_eq!(json["data"], serde_json::json!([]));
    assert!(json["machine"]["cores"].as_u64() >= Some(1));
}
