//! Promise: commands in README, guide and pages of studies work as written there.
//!
//! Commands that only read are run; `run` is planned instead (same file, same overrides), which checks the
//! scenario, its overrides and everything that follows from them without training. Commands about a run
//! get one: that of the study they name, which takes a moment. Of what is no command of fedcast (benches,
//! scripts) every name must be there.

mod links;
pub mod markdown;

use std::collections::BTreeSet;
use std::path::Path;

use crate::command;
use markdown::{Page, read, root};

/// Complete runs for commands that ask for one, and what a fork of the second is called.
const RUNS: [(&str, &[&str]); 4] = [
    ("runs/lr", &[]),
    ("runs/two", &["--set", "tasks.count=2"]),
    ("runs/slower", &[]),
    ("runs/hgp", &["--set", r#"method={name="hgp",train="head"}"#]),
];
const STUDY: &str = "scenarios/studies/logistic-regression.toml";

/// Words as a shell splits them, with `'` as the only quote.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.extend(Some(std::mem::take(&mut word))),
            letter => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// The variables that a line sets before its command, and the rest of the line.
fn settings(line: &str) -> (Vec<(&str, &str)>, &str) {
    let (mut settings, mut rest) = (Vec::new(), line);
    while let Some((word, others)) = rest.split_once(' ')
        && let Some((name, value)) = word.split_once('=')
        && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
    {
        settings.push((name, value));
        rest = others;
    }
    (settings, rest)
}

/// The arguments of a line that calls fedcast.
fn arguments(line: &str) -> Option<Vec<String>> {
    let (_, line) = settings(line);
    let call =
        line.strip_prefix("fedcast ").or_else(|| line.strip_prefix("cargo run --release -- "));
    call.map(words)
}

/// Runs what can be run here, and expects that it works.
fn works(mut words: Vec<String>, folder: &Path, line: &str) {
    let made = |word: &str| RUNS.iter().any(|(name, _)| *name == word);
    words
        .iter_mut()
        .filter(|word| made(word))
        .for_each(|word| *word = folder.join(&*word).to_str().unwrap().to_owned());
    if words[0] == "run" {
        words[0] = "plan".into();
        // A plan is written nowhere.
        if let Some(out) = words.iter().position(|word| word == "-o") {
            words.drain(out..out + 2);
        }
        // Nor does it train anything alone first, or ask the network.
        words.retain(|word| !["--single-task", "--resume", "--fetch"].contains(&word.as_str()));
    }
    // Thousands of clients plan as the hundred thousand do, which take minutes without optimization.
    words.iter_mut().for_each(|word| *word = word.replace("clients=100000", "clients=2000"));
    // A study is planned, too.
    if words[0] == "study" {
        words.retain(|word| !["--status", "--retry-failed", "--plan"].contains(&word.as_str()));
        words.push("--plan".into());
        // One seed is as good as three; studies of rates have others than those that they choose for.
        let seed = if words[1].contains(".rates.") { "seed=101" } else { "seed=1" };
        words.extend(["--only".into(), seed.into()]);
    }
    if ["export", "invert"].contains(&words[0].as_str()) {
        // Next to the current run.
        let out = words.iter().position(|word| word == "-o").map(|flag| flag + 1);
        let inside = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        out.into_iter().for_each(|out| words[out] = inside(&words[out]));
    }
    // The current run is complete.
    let expected = if words[0] == "resume" { 4 } else { 0 };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = command::run_command(command::fedcast(root(), &words).envs(settings(line).0));
    assert_eq!(output.code, expected, "{line}\n{}", output.err);
}

/// A command of a page that is none of fedcast: everything that it names is there.
fn names_what_exists(page: &Page, line: &str) {
    let call_words = words(line);
    let settings =
        call_words.iter().take_while(|word| word.contains('=') && !word.starts_with('-'));
    let call = &call_words[settings.count()..];
    let known = match call[0].as_str() {
        "cargo" => cargo(&call[1..]),
        "python" => call.get(1).is_some_and(|script| root().join(script).is_file()),
        "pip" => pip(&call[1..]),
        "maturin" => {
            let manifest = call.iter().skip_while(|word| *word != "--manifest-path").nth(1);
            call[1] == "build" && manifest.is_some_and(|path| root().join(path).is_file())
        }
        "eval" => script(&words(line.split(['(', ')']).nth(1).unwrap_or_default())),
        _ => script(call),
    };
    assert!(known, "{}: nobody knows whether `{line}` works", page.name);
}

fn cargo(call: &[String]) -> bool {
    let manifest = read("Cargo.toml");
    let after = |flag: &str| call.iter().skip_while(|word| *word != flag).nth(1);
    match call[0].as_str() {
        "bench" => {
            after("--bench").is_some_and(|name| manifest.contains(&format!("name = \"{name}\"")))
        }
        "test" if after("--test").is_some() => {
            after("--test").is_some_and(|name| root().join("tests").join(name).is_dir())
        }
        "run" => {
            after("--example").is_some_and(|name| manifest.contains(&format!("name = \"{name}\"")))
        }
        "build" | "test" => {
            let feature = after("--features");
            feature.is_none_or(|name| manifest.contains(&format!("\n{name} = [")))
        }
        _ => false,
    }
}

/// An installation of what the check of the Python package installs, or of its wheel.
fn pip(call: &[String]) -> bool {
    let installed = read("tools/python/check.sh");
    let known = |word: &String| installed.contains(word.as_str()) || word == "wheels/fedcast-*.whl";
    call[0] == "install" && call[1..].iter().all(known)
}

/// A script of ours whose text knows every option and word that it is called with, or that is a path here.
fn script(call: &[String]) -> bool {
    let Some((name, rest)) = call.split_first() else { return false };
    let mut values = false;
    name.starts_with("tools/")
        && root().join(name).is_file()
        && rest.iter().all(|word| {
            // What follows an option is its value.
            let value = std::mem::replace(&mut values, word.starts_with("--"));
            value || read(name).contains(word.as_str()) || root().join(word).exists()
        })
}

#[test]
fn every_command_works() {
    let folder = tempfile::tempdir().unwrap();
    for (run, sets) in RUNS.iter().filter(|(name, _)| *name != "runs/slower") {
        let run = folder.path().join(run);
        let run = ["run", STUDY, "-q", "-o", run.to_str().unwrap()];
        let made = command::run_fedcast(root(), &[&run, *sets].concat());
        assert_eq!(made.code, 0, "{}", made.err);
    }
    let (mut done, mut others) = (BTreeSet::new(), 0);
    // The first hour has its own folder and its own test.
    let elsewhere = |page: &Page| page.name.ends_with("/first_hour.md");
    for page in markdown::pages().into_iter().filter(|page| !elsewhere(page)) {
        for line in page.shell_lines() {
            let line = line.replace("$rate", "0.1");
            match arguments(&line) {
                Some(words) if done.insert(words.clone()) => works(words, folder.path(), &line),
                Some(_) => {}
                None => {
                    names_what_exists(&page, &line);
                    others += 1;
                }
            }
        }
    }
    assert!(done.len() >= 60 && others >= 12, "{} and {others} commands found", done.len());
}

/// `fedcast run` within a sentence or a table.
#[test]
fn every_command_in_the_text_is_one() {
    let mut commands = BTreeSet::new();
    for page in markdown::pages() {
        for span in page.code_spans() {
            match arguments(&span) {
                Some(words) => drop(commands.insert(words[0].clone())),
                None if ["cargo bench", "RAYON_NUM_THREADS", "tools/"]
                    .iter()
                    .any(|p| span.starts_with(p)) =>
                {
                    names_what_exists(&page, &span);
                }
                None => {}
            }
        }
    }
    assert!(commands.len() >= 6, "{commands:?}");
    for command in commands {
        let output = command::run_fedcast(root(), &[&command, "--help"]);
        assert_eq!(output.code, 0, "there is no command `{command}`");
    }
}

/// Rows of tables name the change that made their numbers: `--set ...` over the page's scenario.
#[test]
fn every_change_of_a_study_can_be_made() {
    let mut changes = 0;
    for page in markdown::pages() {
        let scenario = page.name.replace(".md", ".toml");
        if !scenario.starts_with("scenarios/studies/") {
            continue;
        }
        let spans: BTreeSet<String> = page.code_spans().into_iter().collect();
        for span in spans.iter().filter(|s| s.starts_with("--set ") && !s.ends_with('=')) {
            let line = format!("fedcast plan {scenario} {span}");
            works(arguments(&line).unwrap(), "".as_ref(), &line);
            changes += 1;
        }
    }
    assert!(changes >= 10, "only {changes} changes found");
}

#[test]
fn every_scenario_that_is_printed_in_full_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut printed = 0;
    for page in markdown::pages() {
        for text in page.blocks("toml").filter(|text| text.starts_with("schema = 2")) {
            let file = folder.path().join("printed.toml");
            // Cells of a table name shipped scenarios next to the folder of the study.
            let shipped = format!("\"{}/", root().join("scenarios").display());
            std::fs::write(&file, text.replace("\"../", &shipped)).unwrap();
            let file = file.to_str().unwrap();
            let output = match text.contains("\nbase = ") || text.contains("\n[[cell]]") {
                true => {
                    let base = root().join("scenarios/studies/scale.toml");
                    std::fs::copy(base, folder.path().join("scale.toml")).unwrap();
                    command::run_fedcast(root(), &["study", file, "--plan"])
                }
                false => command::run_fedcast(root(), &["plan", file]),
            };
            assert_eq!(output.code, 0, "{}: {}", page.name, output.err);
            printed += 1;
        }
    }
    assert!(printed >= 2, "README and the guide show scenarios");
}
