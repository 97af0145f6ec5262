//! Promise: every command of the README works as it is written there.
//!
//! Commands that only read are run; `run` is planned instead (same file, same overrides), which checks the
//! scenario, its overrides and everything that follows from them without training.

mod command;

use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Lines of the README's `sh` blocks that call fedcast, continuation lines joined, without comments.
fn commands() -> Vec<String> {
    let readme = include_str!("../README.md").replace("\\\n", " ");
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
    // No argument in quotes has a space in it.
    for line in commands {
        let mut words: Vec<String> = line
            .replace("$rate", "0.1")
            .replace('\'', "")
            .split_whitespace()
            .map(String::from)
            .collect();
        if words[0] == "run" {
            words[0] = "plan".into();
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let told = command::tell(root(), &words);
        assert_eq!(told.code, 0, "fedcast {line}\n{}", told.err);
    }
}

#[test]
fn every_scenario_the_readme_names_is_there() {
    let named: Vec<&str> = include_str!("../README.md")
        .split(|c: char| c.is_whitespace() || "`()".contains(c))
        .filter(|word| word.starts_with("scenarios/") && word.ends_with(".toml"))
        .collect();
    assert!(!named.is_empty());
    for name in named {
        assert!(root().join(name).is_file(), "the README names {name}");
    }
}
