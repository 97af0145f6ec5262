//! Snapshots of texts for users: help and the final table.

use crate::command::{run_fedcast, tiny_run};

#[test]
fn help_teaches() {
    let folder = tempfile::tempdir().unwrap();
    let commands = [
        "",
        "run",
        "check",
        "migrate",
        "plan",
        "resume",
        "replay",
        "single-task",
        "study",
        "compare",
        "report",
        "runs",
        "methods",
        "columns",
        "export",
        "invert",
        "new",
        "keys",
        "schema",
        "doctor",
        "completions",
        "man",
        "fork",
        "fetch",
        "weights",
    ];
    for command in commands {
        let arguments: Vec<&str> =
            [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let output = run_fedcast(folder.path(), &arguments);
        assert_eq!(output.code, 0, "{}", output.err);
        assert!(output.out.contains("Examples:"), "{command}: {}", output.out);
        let name = if command.is_empty() { "help" } else { command };
        insta::assert_snapshot!(format!("help_{name}"), output.out);
    }
}

#[test]
fn the_final_table_says_what_counts() {
    let folder = tempfile::tempdir().unwrap();
    let output = tiny_run(folder.path(), &[]);
    assert_eq!(output.code, 0, "{}", output.err);
    // Bytes and layout are the same everywhere; accuracies and digests are this CPU's.
    let masked: Vec<String> = output
        .out
        .lines()
        .map(|line| match line.split_whitespace().next() {
            Some("wall" | "digests") => line.split("  ").next().unwrap_or_default().to_string(),
            _ => line.to_string(),
        })
        .collect();
    let text = masked.join("\n");
    for must in ["after task 2", "(FAA", "forgetting since learned", "prototypes", "virtual"] {
        assert!(text.contains(must), "{must}\n{text}");
    }
    let bytes: Vec<&String> =
        masked.iter().filter(|line| line.starts_with("down") || line.starts_with("up")).collect();
    insta::assert_debug_snapshot!(bytes);
}

#[test]
fn methods_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(folder.path(), &["methods", "show", "hgp"]);
    assert_eq!(output.code, 0);
    for must in ["arXiv 2406.02447", "Messages", "State", "prompt_len", "= 200"] {
        assert!(output.out.contains(must), "{must}\n{}", output.out);
    }
    let list = run_fedcast(folder.path(), &["methods", "--format", "json"]);
    let list: serde_json::Value = serde_json::from_str(&list.out).unwrap();
    let names: Vec<&str> = list["methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert!(["hgp", "fedavg", "joint"].iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn methods_are_listed_with_their_services() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(folder.path(), &["methods"]);
    assert_eq!(output.code, 0, "{}", output.err);
    insta::assert_snapshot!(
        "methods_and_services",
        section(&output.out, "with defaults", "`fedcast")
    );
}

#[test]
fn messages_and_services_of_a_method_are_read_from_its_layouts() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(folder.path(), &["methods", "show", "hgp"]);
    assert_eq!(output.code, 0, "{}", output.err);
    insta::assert_snapshot!("messages_of_hgp", section(&output.out, "Messages ", "Keys of"));
}

/// The lines from one that begins so, up to one that begins otherwise.
fn section(text: &str, from: &str, to: &str) -> String {
    let lines = text.lines().skip_while(|line| !line.starts_with(from));
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with(to)).collect();
    lines.join("\n").trim_end().to_owned()
}
