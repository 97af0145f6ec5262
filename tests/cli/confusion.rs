//! Promise: with record.confusion a run reports true and predicted classes; its journal does not change.

use std::collections::BTreeMap;
use std::fs;

use crate::command::{read, run_fedcast, tiny_run};

fn rows(text: &str) -> Vec<Vec<u64>> {
    let cells = |line: &str| line.split(',').map(|cell| cell.parse().unwrap()).collect();
    text.lines().skip(1).map(cells).collect()
}

#[test]
fn what_is_taken_for_what_adds_up_to_right_answers_and_survives_resuming() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(tiny_run(folder, &[]).code, 0);
    let at = |name: &str| folder.join("run").join(name);
    let digests = || -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(&read(at("manifest.json"))).unwrap()["digests"]
            .clone()
    };
    let plain = digests();
    let every = ["--set", "record.checkpoint={every=\"round\",keep=9,max_time_fraction=1.0}"];
    let tables = ["--set", "record.confusion=true", "--set", "record.predictions=true", "--force"];
    let on = [&tables[..], &every].concat();
    assert_eq!(tiny_run(folder, &on).code, 0);
    assert_eq!(digests(), plain);
    let table = read(at("confusion.csv"));
    let (mut right, mut all) = (BTreeMap::new(), BTreeMap::new());
    for row in rows(&table) {
        let [after_task, class, predicted, samples, ..] = row[..] else { panic!("{row:?}") };
        assert!(samples > 0);
        *all.entry((after_task, class)).or_insert(0) += samples;
        *right.entry((after_task, class)).or_insert(0) +=
            if class == predicted { samples } else { 0 };
    }
    // Right answers and samples are those of classes.csv, in whose columns 1, 4, 5 and 6 they stand.
    let classes = read(at("classes.csv"));
    let mut compared = 0;
    for line in classes.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |place: usize| cells[place].parse::<u64>().unwrap();
        let key = (number(0), number(3));
        assert_eq!((right[&key], all[&key]), (number(4), number(5)), "{line}");
        compared += 1;
    }
    assert!(compared == 15 && all.len() == 15, "five classes, then ten");
    let output = run_fedcast(folder, &["replay", "run", "-o", "again"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(read(folder.join("again/confusion.csv")), table);

    // Every test sample has a row after every task since its own, and together they are the matrix.
    let predictions = read(at("predictions.csv"));
    assert_eq!(read(folder.join("again/predictions.csv")), predictions);
    let mut counted = BTreeMap::new();
    let mut samples: Vec<(u64, u64)> = Vec::new();
    for row in rows(&predictions) {
        let [after_task, sample, class, predicted, ..] = row[..] else { panic!("{row:?}") };
        *counted.entry((after_task, class, predicted)).or_insert(0) += 1;
        samples.push((after_task, sample));
    }
    let of = |row: Vec<u64>| ((row[0], row[1], row[2]), row[3]);
    assert_eq!(counted, rows(&table).into_iter().map(of).collect());
    assert!(samples.is_sorted() && samples.windows(2).all(|pair| pair[0] != pair[1]));

    // As if it had been killed after its last round: the first task is replayed, the second tested again.
    let manifest = read(at("manifest.json")).replace("\"done\"", "\"running\"");
    fs::write(at("manifest.json"), manifest).unwrap();
    let output = run_fedcast(folder, &["resume", "run", "-q"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.err.contains("resuming after round 2"), "{}", output.err);
    assert_eq!(read(at("confusion.csv")), table);
    assert_eq!(read(at("predictions.csv")), predictions);
    assert_eq!(digests(), plain);

    // The page has the matrix after the last task.
    let output = run_fedcast(folder, &["report", "run", "-o", "page.html"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let page = read(folder.join("page.html"));
    let section = page.split("id=\"confusion\"").nth(1).unwrap();
    for class in 0..10 {
        let head = format!("<th scope=\"row\" class=\"text\">{class}</th>");
        let row = section.split(&head).nth(1).unwrap().split("</tr>").next().unwrap();
        let cells: Vec<&str> = row.split("<td").skip(1).collect();
        assert_eq!(cells.len(), 10);
        let percent = 100.0 * right[&(2, class)] as f64 / all[&(2, class)] as f64;
        let shown =
            if percent == 0.0 { "></td>".to_owned() } else { format!(">{percent:.1}</td>") };
        assert!(cells[class as usize].ends_with(&shown), "{class}: {row} without {shown}");
    }
}
