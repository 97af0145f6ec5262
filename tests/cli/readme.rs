//! Promise: every command of the README works as it is written there.
//!
//! Commands that only read are run; `run` is planned instead (same file, same overrides), which checks the
//! scenario, its overrides and everything that follows from them without training. Commands about a run
//! get one: that of the study they name, which takes a moment.

use std::path::Path;

use crate::command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Lines of the README's `sh` blocks that call fedcast, continuation lines joined, without comments.
fn commands() -> Vec<String> {
    let readme = include_str!("../../README.md").replace("\\\n", " ");
    let mut inside = false;
    let mut found = Vec::new();
    for line in readme.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            line if inside => {
                let call = line
                    .strip_prefix("fedcast ")
                    .or_else(|| line.strip_prefix("cargo run --release -- "));
                let uncommented = |call: &str| call.split(" #").next().unwrap_or(call).to_string();
                found.extend(call.map(uncommented));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn every_command_of_the_readme_works() {
    let commands = commands();
    assert!(commands.len() >= 5, "the README shows its commands in sh blocks: {commands:?}");
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("lr");
    let run = run.to_str().unwrap();
    let study = "scenarios/studies/logistic-regression.toml";
    let made = command::tell(root(), &["run", study, "-q", "-o", run]);
    assert_eq!(made.code, 0, "{}", made.err);
    // No argument in quotes has a space in it.
    for line in commands {
        let mut words: Vec<String> = line
            .replace("$rate", "0.1")
            .replace('\'', "")
            .replace("runs/lr", run)
            .split_whitespace()
            .map(String::from)
            .collect();
        if words[0] == "run" {
            words[0] = "plan".into();
            // A plan is written nowhere.
            if let Some(out) = words.iter().position(|word| word == "-o") {
                words.drain(out..out + 2);
            }
        }
        // The run at hand is complete.
        let expected = if words[0] == "resume" { 4 } else { 0 };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let told = command::tell(root(), &words);
        assert_eq!(told.code, expected, "fedcast {line}\n{}", told.err);
    }
}

#[test]
fn every_scenario_the_readme_names_is_there() {
    let named: Vec<&str> = include_str!("../../README.md")
        .split(|c: char| c.is_whitespace() || "`()".contains(c))
        .filter(|word| word.starts_with("scenarios/") && word.ends_with(".toml"))
        .collect();
    assert!(!named.is_empty());
    for name in named {
        assert!(root().join(name).is_file(), "the README names {name}");
    }
}
