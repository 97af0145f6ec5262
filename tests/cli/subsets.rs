//! Promise: a subset of each class is what a plan counts and what a run trains and tests on.

use serde_json::Value;

use crate::command::{read, run_fedcast};
use crate::plan_bytes::small_cifar;

/// A subset counts in a plan as in a run, and a note says where stated sizes are not those of the data.
#[test]
fn a_plan_and_a_run_keep_the_same_samples() {
    const SCENARIO: &str = r#"
schema = 2
preset = "mobile"
data = { source = "cifar10", path = "images", subset = 5, test_subset = 1 }
tasks = { count = 2 }
partition = { kind = "iid" }
backbone = { kind = "pixels" }
method = { name = "fedavg", train = "head" }
federation = { clients = 1, rounds = 1 }
client = { epochs = 1, batch_size = 8 }
"#;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.toml"), SCENARIO).unwrap();
    let samples = |more: &[&str]| {
        let output = run_fedcast(folder, &[&["plan", "a.toml", "--format", "json"], more].concat());
        assert_eq!(output.code, 0, "{}", output.err);
        serde_json::from_str::<Value>(&output.out).unwrap()["samples"].as_u64().unwrap()
    };
    // Published and stated sizes are those before the subset.
    assert_eq!(samples(&[]), 50);
    assert_eq!(samples(&["--set", "data.nominal={classes=10,train=85,test=20}"]), 50);
    std::fs::create_dir(folder.join("images")).unwrap();
    small_cifar(&folder.join("images"));
    // Class 0 has 4 images.
    assert_eq!(samples(&[]), 49);
    let run = |out: &str, more: &[&str]| {
        let output = run_fedcast(folder, &[&["run", "a.toml", "-q", "-o", out], more].concat());
        assert_eq!(output.code, 0, "{}", output.err);
        let matrix = read(folder.join(out).join("matrix.csv"));
        let mut lines = matrix.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let total = lines.next().unwrap().iter().position(|column| *column == "total").unwrap();
        (lines.map(|row| row[total].to_owned()).collect::<Vec<_>>(), output.err)
    };
    let (totals, note) = run("run", &[]);
    assert!(!note.contains("data.nominal"), "{note}");
    // One test image of each of a task's five classes.
    assert!(totals.iter().all(|total| total == "5"), "{totals:?}");
    let stated = ["--set", "data.nominal={classes=10,train=85,test=20}"];
    assert!(!run("right", &stated).1.contains("data.nominal"));
    let all = [
        "--set",
        "data={source=\"cifar10\",path=\"images\",nominal={classes=10,train=50,test=20}}",
    ];
    let (_, note) = run("wrong", &all);
    assert!(
        note.contains("data.nominal states 10 classes, 50 training and 20 test samples"),
        "{note}"
    );
    assert!(note.contains("but the data have 10 classes, 85 and 20"), "{note}");
}
