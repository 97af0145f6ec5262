//! Rates can be chosen on held-out training samples, and such numbers are marked as not those of the test set.

use crate::command::{read, run_fedcast, tiny, tiny_run};

const HELD_OUT: [&str; 4] =
    ["--set", "data.validation_fraction=0.25", "--set", "data.evaluate=validation"];

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("this is JSON")
}

#[test]
fn tables_files_and_plans_say_that_numbers_are_of_a_validation_split() {
    let folder = tempfile::tempdir().unwrap();
    let run = tiny_run(folder.path(), &HELD_OUT);
    assert_eq!(run.code, 0, "{}", run.err);
    let said = "VALIDATION: accuracies are on held-out training samples (0.25 of every class), not on the test set";
    assert!(run.out.contains(said), "{}", run.out);
    assert!(run.out.contains("\nvalidation %"), "{}", run.out);
    assert!(run.out.contains("accuracy on all held-out samples (micro)"), "{}", run.out);
    for file in ["run/summary.json", "run/manifest.json"] {
        let validation = &json(&read(folder.path().join(file)))["validation"];
        assert_eq!(
            (&validation["fraction"], &validation["evaluate"]),
            (&0.25.into(), &"validation".into())
        );
    }
    let replayed = run_fedcast(folder.path(), &["replay", "run"]);
    assert!(replayed.out.contains(said), "{}", replayed.out);
    assert_eq!(run_fedcast(folder.path(), &["replay", "run", "--verify", "-q"]).code, 0);

    let tiny = tiny();
    let plan = |more: &[&str]| {
        let arguments = [&["plan", tiny.to_str().unwrap()], more].concat();
        run_fedcast(folder.path(), &arguments).out
    };
    // Twelve images of each of ten digits, and a quarter less.
    let (whole, part) = (plan(&[]), plan(&HELD_OUT));
    assert!(whole.contains("120 training samples") && !whole.contains("VALIDATION"), "{whole}");
    assert!(part.contains("90 training samples") && part.contains(said), "{part}");
    let document = json(&plan(&[&HELD_OUT[..], &["--format", "json"]].concat()));
    assert_eq!(document["validation"]["fraction"], 0.25);
}

#[test]
fn samples_that_are_held_out_and_not_used_are_said_too() {
    let folder = tempfile::tempdir().unwrap();
    let run = tiny_run(folder.path(), &HELD_OUT[..2]);
    assert!(run.out.contains("held out: 0.25 of every class"), "{}", run.out);
    assert!(run.out.contains("accuracy on all test samples"), "{}", run.out);
    assert!(!run.out.contains("VALIDATION"), "{}", run.out);
}
