//! Promise: what has no test samples has no accuracy, is in no mean, and the run says so once.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{CommandOutput, read, run_fedcast};

/// Three classes, one to a task; the columns say which. The part that is tested has these rows.
fn table(folder: &Path, tested: &str) {
    let rows = |row: &str| format!("{row}\n").repeat(6);
    let train = [rows("8,0,0,cat"), rows("0,8,0,dog"), rows("0,0,8,emu")].concat();
    fs::write(folder.join("train.csv"), format!("a,b,c,label\n{train}")).unwrap();
    fs::write(folder.join("test.csv"), format!("a,b,c,label\n{tested}")).unwrap();
    let text = "schema = 2\ndata = { source = \"table\", path = \".\", width = 3 }\n\
                tasks = { count = 3, order = \"native\" }\n\
                partition = { kind = \"iid\", min_samples = 1 }\n\
                backbone = { kind = \"pixels\" }\nmethod = { name = \"fedavg\" }\n\
                federation = { clients = 1, rounds = 1 }\nclient = { epochs = 2, batch_size = 6 }\n";
    fs::write(folder.join("own.toml"), text).unwrap();
}

fn run(folder: &Path, file: &str, more: &[&str]) -> (CommandOutput, Value) {
    let output = run_fedcast(folder, &[&["run", file, "-q", "-o", "run"], more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    (output, serde_json::from_str(&read(folder.join("run/summary.json"))).unwrap())
}

/// The cells of `matrix.csv`.
fn matrix(folder: &Path) -> Vec<Vec<String>> {
    let text = read(folder.join("run/matrix.csv"));
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn a_class_of_a_long_tail_without_tests_is_in_no_mean() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, "8,0,0,cat\n8,0,0,cat\n8,0,0,cat\n0,8,0,dog\n");
    let (output, summary) = run(folder, "own.toml", &[]);
    let note = "1 of 3 classes has no test samples: it has no accuracy (`emu`)";
    assert!(output.err.contains(note), "{}", output.err);
    let said = "task 3 has no test samples and is left out of means";
    assert_eq!(output.out.matches(said).count(), 1, "{}", output.out);

    let rows = matrix(folder);
    let last: Vec<&Vec<String>> = rows.iter().filter(|row| row[0] == "3").collect();
    assert_eq!((last.len(), &*last[2][3], &*last[2][4]), (3, "0", ""));
    let share =
        |row: usize| last[row][2].parse::<f64>().unwrap() / last[row][3].parse::<f64>().unwrap();
    let number = |pointer: &str| summary.pointer(pointer).and_then(Value::as_f64);
    assert_eq!(number("/accuracy/faa"), Some((share(0) + share(1)) / 2.0));
    assert_eq!(number("/accuracy/micro"), Some((3.0 * share(0) + share(1)) / 4.0));
    assert_eq!(summary["accuracy"]["matrix"][2][2], Value::Null);
    assert_eq!(summary["accuracy"]["untested_tasks"], serde_json::json!([3]));
    // A class without test samples has no line.
    let classes = read(folder.join("run/classes.csv"));
    assert!(classes.contains(",dog\n") && !classes.contains("emu"), "{classes}");

    // What is written again says the same, and the page keeps the columns of the matrix.
    let again = run_fedcast(folder, &["replay", "run", "-o", "again"]);
    assert_eq!((again.code, again.out.matches(said).count()), (0, 1), "{}", again.err);
    assert_eq!(read(folder.join("again/matrix.csv")), read(folder.join("run/matrix.csv")));
    assert_eq!(run_fedcast(folder, &["report", "run", "-o", "page.html"]).code, 0);
    let page = read(folder.join("page.html"));
    assert!(page.contains("a cell is empty if its task has no test samples"));
}

#[test]
fn a_middle_task_without_tests_leaves_its_stage_to_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, "8,0,0,cat\n0,0,8,emu\n");
    let (_, summary) = run(folder, "own.toml", &[]);
    let row = |stage: usize| summary["accuracy"]["matrix"][stage].as_array().unwrap().clone();
    assert_eq!((row(1).len(), &row(1)[1], &row(2)[1]), (2, &Value::Null, &Value::Null));
    let cat = |stage: usize| row(stage)[0].as_f64().unwrap();
    let emu = row(2)[2].as_f64().unwrap();
    let number = |name: &str| summary["accuracy"][name].as_f64().unwrap();
    let near = |name: &str, wanted: f64| {
        assert!((number(name) - wanted).abs() < 1e-12, "{name}: {} is not {wanted}", number(name));
    };
    near("faa", (cat(2) + emu) / 2.0);
    near("average_incremental", (cat(0) + cat(1) + (cat(2) + emu) / 2.0) / 3.0);
    near("forgetting", (cat(0) - cat(2)) / 2.0);
    near("forgetting_consecutive_old", (cat(0) - cat(1) + cat(1) - cat(2)) / 2.0);
}

#[test]
fn a_class_that_is_tested_and_not_trained_on_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, "8,0,0,cat\n0,8,8,fox\n");
    let output = run_fedcast(folder, &["run", "own.toml", "-q", "-o", "run"]);
    assert_eq!(output.code, 6, "{}", output.err);
    assert!(output.err.contains("`fox`") && output.err.contains("test.csv"), "{}", output.err);
    assert!(!folder.join("run/summary.json").exists());
}

/// The third most frequent character is not in the last third of what the speaker says.
#[test]
fn a_play_whose_end_lacks_a_character_has_no_accuracy_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let said = format!("{}{}", "abc".repeat(20), "ab".repeat(30));
    fs::write(folder.join("p.txt"), format!("Ann:\n{said}\n")).unwrap();
    let text = "schema = 2\ndata = { source = \"play\", path = \"p.txt\", text = { sequence_length = 4, stride = 1, vocabulary_size = 3, test = 0.3 } }\n\
                tasks = { count = 3 }\npartition = { kind = \"iid\", min_samples = 0 }\n\
                backbone = { kind = \"bert\", architecture = { hidden = 16, heads = 2, layers = 1, intermediate = 16 } }\n\
                method = { name = \"fedavg\", train = \"head\" }\n\
                federation = { clients = 1, rounds = 1 }\n\
                client = { epochs = 1, batch_size = 100, optimizer = { kind = \"sgd\", lr = 0.1 } }\n";
    fs::write(folder.join("p.toml"), text).unwrap();
    let (output, summary) = run(folder, "p.toml", &[]);
    assert!(output.err.contains("no accuracy (`c`)"), "{}", output.err);
    let last: Vec<Vec<String>> = matrix(folder).into_iter().filter(|row| row[0] == "3").collect();
    let known: Vec<f64> = last.iter().filter_map(|row| row[4].parse().ok()).collect();
    assert_eq!((last.len(), known.len()), (3, 2), "{last:?}");
    assert!(last.iter().all(|row| row[4].is_empty() == (row[3] == "0")), "{last:?}");
    let faa = summary["accuracy"]["faa"].as_f64().unwrap();
    assert!((faa - known.iter().sum::<f64>() / 2.0).abs() < 1e-12);
}
