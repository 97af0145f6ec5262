//! Promise: a run goes on from the end of any of its tasks with other settings; what was learned until then is taken
//! over to the bit, and the new run is resumed, verified and forked like any other.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{CommandOutput, read, run_fedcast};

/// Clients that remember (control variates), sampled, over links that take time.
const SCENARIO: &str = r#"
schema = 2
data = { source = "digits", subset = 12 }
tasks = { sizes = [4, 3, 3] }
partition = { kind = "dirichlet", beta = 1.0, min_samples = 2 }
backbone = { kind = "pixels" }
method = { name = "scaffold" }
federation = { clients = 6, rounds = 3 }
participation = { kind = "count", count = 3 }
client = { epochs = 1, batch_size = 16, optimizer = { kind = "sgd", lr = 0.1 } }
time = { preset = "mobile", ms_per_sample = 30 }
links = { preset = "mobile", loss_rate = 0.02 }
record = { checkpoint = { every = "task", keep = 9, max_time_fraction = 1.0 } }
"#;

fn recorded(folder: &Path) {
    fs::write(folder.join("a.toml"), SCENARIO).unwrap();
    let output = run_fedcast(folder, &["run", "a.toml", "-q", "-o", "a"]);
    assert_eq!(output.code, 0, "{}", output.err);
}

fn fork(folder: &Path, words: &[&str]) -> CommandOutput {
    run_fedcast(folder, &[&["fork"], words, &["-q"]].concat())
}

#[track_caller]
fn forks(folder: &Path, words: &[&str]) {
    let output = fork(folder, words);
    assert_eq!(output.code, 0, "{}", output.err);
}

fn json(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

/// Lines up to the end of a task, and those after it.
fn cut(journal: &str, task: u32) -> (Vec<&str>, Vec<&str>) {
    let mut lines: Vec<&str> = journal.lines().filter(|l| !l.starts_with("{\"seal\"")).collect();
    let end = format!("{{\"type\":\"task_ended\",\"task\":{}}}", task - 1);
    let at = lines.iter().position(|line| line.contains(&end)).expect("the task ended");
    let after = lines.split_off(at + 1);
    (lines, after)
}

#[track_caller]
fn verified(folder: &Path, run: &str) {
    let output = run_fedcast(folder, &["replay", run, "--verify", "--workers", "1"]);
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    assert!(output.out.starts_with("identical"), "{}", output.out);
}

#[test]
fn with_nothing_changed_that_matters_the_journal_is_the_same_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder);
    for task in ["1", "2"] {
        let out = format!("after-{task}");
        forks(
            folder,
            &["a", "--after-task", task, "--set", "federation.on_bad_update=abort", "-o", &out],
        );
        for file in ["events.jsonl", "rounds.csv", "bytes.csv", "matrix.csv", "clients.csv"] {
            assert!(read(folder.join("a").join(file)) == read(folder.join(&out).join(file)));
        }
    }
    let forked = &json(folder.join("after-2/manifest.json"))["forked"];
    let manifest = json(folder.join("a/manifest.json"));
    assert_eq!(forked["scenario"], manifest["scenario"]);
    assert_eq!(forked["after_task"], 2);
    assert_eq!(forked["before"][0]["hash"], manifest["scenario"]["hash"]);
    let journal = read(folder.join("a/events.jsonl"));
    assert_eq!(forked["events"], cut(&journal, 2).0.len());
    let shown = run_fedcast(folder, &["runs", "show", "after-2"]);
    assert!(shown.out.contains("after task 2"), "{}", shown.out);
}

#[test]
fn what_is_changed_holds_from_there_on_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder);
    let sets = ["participation.count=5", "client.optimizer.lr=0.01", "links.rtt_ms=900"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", *set]).collect();
    forks(folder, &[&["a", "--after-task", "1", "-o", "b"][..], &sets].concat());
    let (a, b) = (read(folder.join("a/events.jsonl")), read(folder.join("b/events.jsonl")));
    let ((a_before, a_after), (b_before, b_after)) = (cut(&a, 1), cut(&b, 1));
    assert!(a_before == b_before);
    assert_ne!(a_after[2..], b_after[2..]);
    let rounds = read(folder.join("b/rounds.csv"));
    let mut rounds = csv::Reader::from_reader(rounds.as_bytes());
    let place = rounds.headers().unwrap().iter().position(|name| name == "sampled").unwrap();
    let sampled: Vec<String> =
        rounds.records().map(|row| row.unwrap()[place].to_string()).collect();
    assert_eq!(sampled, ["3", "3", "3", "5", "5", "5", "5", "5", "5"]);
    verified(folder, "b");
    // As long as it takes to go 900 ms there and back.
    let at = |lines: &[&str]| -> u64 {
        let entry: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
        entry["at"].as_u64().unwrap()
    };
    assert!(at(&b_after) - at(&b_before) > 6 * 900_000_000);
}

#[test]
fn a_fork_is_resumed_forked_and_computed_from_nothing_kept() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder);
    let set = ["--set", "client.optimizer.lr=0.01"];
    forks(folder, &[&["a", "--after-task", "1", "-o", "b"][..], &set].concat());

    // Killed after its fork, before and after its first own checkpoint.
    let whole = read(folder.join("b/events.jsonl"));
    for own in [true, false] {
        let mut manifest = json(folder.join("b/manifest.json"));
        manifest["status"] = "running".into();
        fs::write(folder.join("b/manifest.json"), manifest.to_string()).unwrap();
        fs::write(folder.join("b/events.jsonl"), &whole[..whole.len() * 9 / 10]).unwrap();
        if !own {
            fs::remove_dir_all(folder.join("b/checkpoints")).unwrap();
        }
        let output = run_fedcast(folder, &["resume", "b"]);
        assert_eq!(output.code, 0, "{}", output.err);
        let from = if own { "after task 2" } else { "after task 1" };
        assert!(output.err.contains(from), "{}", output.err);
        assert!(read(folder.join("b/events.jsonl")) == whole);
    }

    // A fork of a fork remembers both; one before the first fork only what held then.
    forks(folder, &["b", "--after-task", "2", "--set", "participation.count=4", "-o", "c"]);
    let before = json(folder.join("c/manifest.json"))["forked"]["before"].clone();
    assert_eq!(before.as_array().unwrap().len(), 2);
    let hash = |run: &str| json(folder.join(run).join("manifest.json"))["scenario"]["hash"].clone();
    assert_eq!([&before[0]["hash"], &before[1]["hash"]], [&hash("a"), &hash("b")]);
    verified(folder, "c");
    let again = ["--set", "federation.on_bad_update=abort"];
    forks(folder, &[&["b", "--after-task", "1", "-o", "d"][..], &again].concat());
    let d = json(folder.join("d/manifest.json"))["forked"]["before"].clone();
    assert_eq!((d.as_array().unwrap().len(), &d[0]["hash"]), (1, &hash("a")));
    verified(folder, "d");
    assert!(read(folder.join("d/events.jsonl")) == whole);
    let earlier = fork(folder, &[&["c", "--after-task", "1", "-o", "x"][..], &again].concat());
    assert_eq!(earlier.code, 2);
    assert!(earlier.err.contains("itself forked after task 2"), "{}", earlier.err);

    // Without a checkpoint it says how; computed again it is the same.
    fs::remove_dir_all(folder.join("a/checkpoints")).unwrap();
    let words = [&["a", "--after-task", "1", "-o", "e"][..], &set].concat();
    let none = fork(folder, &words);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("--recompute"), "{}", none.err);
    assert!(!folder.join("e").exists());
    forks(folder, &[&words[..], &["--recompute"]].concat());
    assert!(read(folder.join("e/events.jsonl")) == whole);

    // Nothing is left to go on from.
    fs::remove_dir_all(folder.join("e/fork")).unwrap();
    fs::remove_dir_all(folder.join("e/checkpoints")).unwrap();
    let output = run_fedcast(folder, &["replay", "e", "--verify"]);
    assert_eq!(output.code, 12, "{}", output.err);
}

#[test]
fn what_cannot_be_is_said_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder);
    for (words, says) in [
        (
            &["--after-task", "9", "--set", "client.batch_size=8"][..],
            "a has no task 9, only 3\n  help: --after-task 1 to 2",
        ),
        // The number of the task is judged before what is changed.
        (&["--after-task", "9"], "a has no task 9, only 3\n  help: --after-task 1 to 2"),
        (&["--after-task", "9", "--set", "partition.beta=0.5"], "a has no task 9, only 3"),
        (
            &["--after-task", "3", "--set", "client.batch_size=8"],
            "task 3 is the last one: nothing comes after it\n  help: --after-task 1 to 2",
        ),
        (&["--after-task", "3"], "task 3 is the last one"),
        (&["--after-task", "1"], "nothing is changed"),
        (
            &["--after-task", "1", "--set", "federation.clients=7"],
            "`federation.clients` cannot change",
        ),
        (&["--after-task", "1", "--set", "partition.beta=0.5"], "`partition` cannot change"),
        (
            &["--after-task", "1", "--set", "method={name=\"fedavg\"}"],
            "`method.name` cannot change",
        ),
        (&["--after-task", "1", "--set", "links.rtt=5"], "unknown key"),
        (
            &["--after-task", "1", "--set", "method.variates=server"],
            "has a state, and with these changes clients have none",
        ),
    ] {
        let output = fork(folder, &[&["a", "-o", "b"], words].concat());
        assert!(matches!(output.code, 2 | 3), "{}: {}", output.code, output.err);
        assert!(output.err.contains(says), "{}", output.err);
        assert!(!folder.join("b").exists(), "{says}");
    }
    let itself = fork(
        folder,
        &["a", "-o", "./a", "--force", "--after-task", "1", "--set", "client.batch_size=8"],
    );
    assert_eq!(itself.code, 2);
    assert!(itself.err.contains("its own folder"), "{}", itself.err);
    verified(folder, "a");
    let gone = fork(folder, &["nothing", "--after-task", "1", "--set", "client.batch_size=8"]);
    assert_eq!(gone.code, 2, "{}", gone.err);
}

#[test]
fn a_fork_is_no_run_of_its_scenario_from_the_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    recorded(folder);
    let rate = "client.optimizer.lr=0.02";
    forks(folder, &["a", "--after-task", "2", "--set", rate, "-o", "pool/fork"]);
    let words = ["run", "a.toml", "-q", "-o", "pool/whole", "--set", rate];
    assert_eq!(run_fedcast(folder, &words).code, 0);
    let compared = run_fedcast(folder, &["compare", "pool"]);
    assert_eq!(compared.code, 0, "{}", compared.err);
    assert!(compared.out.contains("after task 2 of "), "{}", compared.out);
    assert!(!compared.out.contains("left out") && !compared.err.contains("left out"));
    // Axes name the fork even where another key distinguishes the arms.
    let compared = run_fedcast(folder, &["compare", "a", "pool/fork"]);
    assert!(compared.out.contains("after task 2 of "), "{}", compared.out);
    // The page does not claim that the whole scenario repeats a fork.
    let made = run_fedcast(folder, &["report", "pool/fork", "-o", "fork.html"]);
    assert_eq!(made.code, 0, "{}", made.err);
    let page = read(folder.join("fork.html"));
    assert!(!page.contains("-o again") && page.contains("fedcast fork"), "a false recipe");
    // A cell of a study is not done by a fork.
    let study = "schema = 2\nbase = \"a.toml\"\nreplicates = 1\n\
                 [axes.lr]\nkey = \"client.optimizer.lr\"\nvalues = [0.1, 0.02]\n";
    fs::write(folder.join("s.study.toml"), study).unwrap();
    let cells = ["study", "s.study.toml", "-o", "s", "-q"];
    let first = run_fedcast(folder, &[&cells[..], &["--only", "lr=0.1"]].concat());
    assert_eq!(first.code, 0, "{}", first.err);
    let (from, to) = ("s/lr=0.1/seed-1", "s/lr=0.02/seed-1");
    forks(folder, &[from, "--after-task", "2", "--set", rate, "-o", to]);
    let refused = run_fedcast(folder, &cells);
    assert!(refused.code != 0 && refused.err.contains("(a fork of "), "{}", refused.err);
}
