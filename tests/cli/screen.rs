//! Promise: texts on stdout fit the screen, whose width `COLUMNS` gives here as a terminal does otherwise, and say the same
//! words; without a screen, and as JSON, nothing is broken.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::arms::{HEAD, STSA, run};
use crate::command::{fedcast, read, run_command, tiny};

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command for a screen and returns what it prints.
fn printed(folder: &Path, arguments: &[&str], columns: Option<&str>) -> String {
    let mut command = fedcast(folder, arguments);
    if let Some(columns) = columns {
        command.env("COLUMNS", columns);
    }
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

fn words(text: &str) -> Vec<String> {
    let words = text.split_whitespace().filter(|word| !word.contains('─'));
    let mut words: Vec<String> = words.map(str::to_owned).collect();
    words.sort();
    words.dedup();
    words
}

/// Commands that need no run, with the words of each at 80 columns.
#[test]
fn texts_fit_80_columns_and_lose_no_word() {
    let folder = tempfile::tempdir().unwrap();
    let quickstart = root().join("scenarios/quickstart.toml");
    let study = root().join("scenarios/studies/stragglers.study.toml");
    let (quickstart, study) = (quickstart.to_str().unwrap(), study.to_str().unwrap());
    for arguments in [
        &["plan", quickstart][..],
        &["plan", quickstart, "--partition"],
        &["study", study, "--plan"],
        &["keys"],
        &["keys", "client"],
        &["methods"],
        &["methods", "show", "hgp"],
        &["columns"],
        &["columns", "rounds.csv"],
        &["fetch", "--list"],
    ] {
        let narrow = printed(folder.path(), arguments, Some("80"));
        // A word that is longer than its room stays whole.
        let wide = |line: &&str| line.chars().count() > 80 && line.trim().contains(' ');
        let wide: Vec<&str> = narrow.lines().filter(wide).collect();
        assert!(wide.is_empty(), "{arguments:?}: {wide:#?}");
        let whole = printed(folder.path(), arguments, None);
        assert_eq!(words(&narrow), words(&whole), "{arguments:?}");
    }
}

#[test]
fn a_plan_for_80_columns_goes_on_below() {
    let folder = tempfile::tempdir().unwrap();
    let quickstart = root().join("scenarios/quickstart.toml");
    let text = printed(folder.path(), &["plan", quickstart.to_str().unwrap()], Some("80"));
    insta::assert_snapshot!("plan_for_80_columns", text);
    let methods = printed(folder.path(), &["methods", "show", "fedavg"], Some("80"));
    insta::assert_snapshot!("method_for_80_columns", methods);
    let columns = printed(folder.path(), &["columns", "client_tasks.csv"], Some("80"));
    insta::assert_snapshot!("columns_for_80_columns", columns);
    let keys = printed(folder.path(), &["keys", "round"], Some("80"));
    insta::assert_snapshot!("keys_for_80_columns", keys);
}

/// The list of runs leaves out what has no room, and says so; JSON has everything at any width.
#[test]
fn runs_leave_out_columns_and_say_which() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = tiny();
    let out = "runs/a-directory-with-a-name-that-leaves-little-room";
    let run = ["run", scenario.to_str().unwrap(), "-q", "-o", out];
    let final_table = printed(folder.path(), &run, Some("80"));
    assert!(final_table.lines().all(|line| line.chars().count() <= 80), "{final_table}");
    let listed = printed(folder.path(), &["runs"], Some("80"));
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    let line = listed.lines().find(|line| line.starts_with("left out for lack of room: "));
    let line = line.unwrap_or_else(|| panic!("{listed}"));
    assert!(line.ends_with("on disk, age") && !line.contains("method"), "{line}");
    assert!(!printed(folder.path(), &["runs"], None).contains("left out"));
    let json = |columns| printed(folder.path(), &["runs", "--format", "json"], columns);
    let (narrow, whole) = (json(Some("40")), json(None));
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&narrow)["runs"][0]["name"], value(&whole)["runs"][0]["name"]);
}

/// Masks what differs from run to run: wall times as `#.#`, peak memory as `#`.
///
/// They are in the lines that begin with `wall` and `features` and in those below that are indented. Accuracies, virtual
/// times and digests have the same bits everywhere and stay. Times that are wrapped are joined, as longer ones break
/// elsewhere.
fn without_wall_times(text: &str) -> String {
    let mut in_wall = false;
    let mut masked = String::new();
    for line in text.lines() {
        let begins = ["wall ", "features "].iter().any(|head| line.starts_with(head));
        in_wall = begins || (in_wall && line.starts_with(' '));
        let word = |word: &str| {
            let digits = word.trim_end_matches([',', ';']);
            let mask = match digits.parse::<f64>() {
                Ok(_) if digits.contains('.') => "#.#",
                Ok(_) if line.contains("peak memory") => "#",
                _ => return word.to_owned(),
            };
            word.replace(digits, mask)
        };
        if !in_wall {
            masked.push_str(line);
        } else {
            let is_wrapped = masked.ends_with(",\n");
            masked.truncate(masked.len() - usize::from(is_wrapped));
            let line = if is_wrapped { format!(" {}", line.trim()) } else { line.to_owned() };
            masked.push_str(&line.split(' ').map(word).collect::<Vec<_>>().join(" "));
        }
        masked.push('\n');
    }
    masked
}

#[test]
fn a_run_for_80_columns_has_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, tiny) = (folder.path(), tiny());
    let tiny = tiny.to_str().unwrap();
    let run = |out: &str, more: &[&str]| {
        let words = [&["run", tiny, "--workers", "1", "-o", out], more].concat();
        let output = run_command(fedcast(folder, &words).env("COLUMNS", "80"));
        assert_eq!(output.code, 0, "{}", output.err);
        assert!(output.out.lines().all(|line| line.chars().count() <= 80), "{}", output.out);
        (without_wall_times(&output.out), output.err)
    };
    let (out, err) = run("runs/tiny", &[]);
    insta::assert_snapshot!("run_for_80_columns", out);
    insta::assert_snapshot!("progress_for_80_columns", err);
    let faulty = [
        "--set",
        "method={name=\"scaffold\",train=\"head\"}",
        "--set",
        "client.optimizer={kind=\"sgd\",lr=0.1}",
        "--set",
        "round={close=\"deadline\",deadline_s=0.5}",
        "--set",
        "links={preset=\"mobile\",loss_rate=0.3}",
        "--set",
        "wire.up.codec=bf16",
        "--set",
        "federation.rounds=2",
    ];
    let (out, err) = run("runs/faulty", &faulty);
    insta::assert_snapshot!("run_with_losses_for_80_columns", out);
    insta::assert_snapshot!("progress_with_losses_for_80_columns", err);
}

#[test]
fn wall_times_are_masked_and_nothing_else() {
    let text = "virtual     0.987 s\n            by task: 0.4, 0.6 s\nwall        12.1 s; 1 worker: training 0.1 s,\n\
                \x20           waiting 0.1 s\n            by task: 0.1, 0.0 s\n            peak memory 42 MB\n\
                digests     E 12  N 1.5\n";
    let expected = "virtual     0.987 s\n            by task: 0.4, 0.6 s\nwall        #.# s; 1 worker: training #.# s, \
                    waiting #.# s\n            by task: #.#, #.# s\n            peak memory # MB\n\
                    digests     E 12  N 1.5\n";
    assert_eq!(without_wall_times(text), expected);
}

/// Makes a run's files three days old and ninety thousand bytes in all, by one more file.
fn settle(run: &Path) {
    let files = |folder: &Path| -> Vec<_> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let (mut all, mut folders) = (Vec::new(), vec![run.to_owned()]);
    while let Some(folder) = folders.pop() {
        let (below, here): (Vec<_>, Vec<_>) = files(&folder).into_iter().partition(|p| p.is_dir());
        folders.extend(below);
        all.extend(here);
    }
    let size: u64 = all.iter().map(|path| path.metadata().unwrap().len()).sum();
    let more = 90_000u64.checked_sub(size).expect("runs of this test are small");
    all.push(run.join("notes.txt"));
    fs::write(run.join("notes.txt"), " ".repeat(more as usize)).unwrap();
    let then = SystemTime::now() - Duration::from_secs(3 * 86_400 + 3_600);
    for path in all {
        File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    }
}

#[test]
fn runs_have_their_columns_as_far_as_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, "runs/head", HEAD, 1, &[]);
    run(folder, "runs/sums", STSA, 12, &[]);
    run(folder, "runs/killed", HEAD, 2, &[]);
    let killed = folder.join("runs/killed");
    fs::remove_file(killed.join("summary.json")).unwrap();
    let manifest = read(killed.join("manifest.json"));
    let running = manifest.replace("\"status\": \"done\"", "\"status\": \"running\"");
    assert_ne!(running, manifest);
    fs::write(killed.join("manifest.json"), running).unwrap();
    for run in ["head", "sums", "killed"] {
        settle(&folder.join("runs").join(run));
    }
    insta::assert_snapshot!("runs_without_a_screen", printed(folder, &["runs"], None));
    // With less room names go first, then columns from the right.
    insta::assert_snapshot!("runs_for_80_columns", printed(folder, &["runs"], Some("80")));
    insta::assert_snapshot!("runs_for_56_columns", printed(folder, &["runs"], Some("56")));
}
