//! Promise: wherever a run writes a class, its name is given with the number.

use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;

use crate::command::{read, run_fedcast};

/// Labels 3, 7 and 100, whose classes are 0, 1 and 2, so that only names identify them.
fn write(folder: &Path) {
    let row = |i: usize| match i % 3 {
        0 => "8,0,0,3",
        1 => "0,8,0,7",
        _ => "0,0,8,100",
    };
    let rows = |count: usize| (0..count).map(|i| format!("{}\n", row(i))).collect::<String>();
    for (name, count) in [("train.csv", 18), ("test.csv", 6)] {
        fs::write(folder.join(name), format!("a,b,c,label\n{}", rows(count))).unwrap();
    }
    let text = "schema = 2\nseed = { class_order = 2 }\ndata = { source = \"table\", path = \".\", width = 3 }\n\
                tasks = { sizes = [2, 1], order = \"seeded\" }\n\
                partition = { kind = \"iid\", min_samples = 1 }\n\
                backbone = { kind = \"pixels\" }\nmethod = { name = \"fedavg\" }\n\
                federation = { clients = 2, rounds = 1 }\nclient = { epochs = 1, batch_size = 6 }\n\
                record = { confusion = true, models = \"last\", metrics = [\"federated-bias\"] }\n";
    fs::write(folder.join("own.toml"), text).unwrap();
}

/// Pairs of a number and a name that a table has in these columns.
fn pairs(path: &Path, number: &str, name: &str) -> Vec<(String, String)> {
    let mut table = csv::Reader::from_path(path).unwrap();
    let head = table.headers().unwrap().clone();
    let place = |column: &str| head.iter().position(|known| known == column).expect(column);
    let (number, name) = (place(number), place(name));
    let rows = table.records().map(Result::unwrap);
    rows.map(|row| (row[number].to_owned(), row[name].to_owned())).collect()
}

#[test]
fn names_of_classes_stand_next_to_their_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder);
    let output = run_fedcast(folder, &["run", "own.toml", "-q", "-o", "run"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let at = |name: &str| folder.join("run").join(name);
    let manifest: Value = serde_json::from_str(&read(at("manifest.json"))).unwrap();
    let names = ["3", "7", "100"];
    assert_eq!(manifest["class_names"], serde_json::json!(names));
    let tables = [
        ("classes.csv", "class", "name"),
        ("confusion.csv", "class", "name"),
        ("confusion.csv", "predicted", "predicted_name"),
        ("partition.csv", "class", "name"),
        ("bias.csv", "class", "name"),
    ];
    for (table, number, name) in tables {
        let pairs = pairs(&at(table), number, name);
        let right = |(number, name): &(String, String)| {
            names[number.parse::<usize>().unwrap()] == name.as_str()
        };
        assert!(pairs.iter().all(right), "{table}: {pairs:?}");
        assert!(!pairs.is_empty());
    }

    // The journal does not know them: a replay takes them from the manifest.
    assert_eq!(run_fedcast(folder, &["replay", "run", "-o", "again"]).code, 0);
    for name in ["classes.csv", "confusion.csv", "partition.csv", "bias.csv"] {
        assert_eq!(read(folder.join("again").join(name)), read(at(name)), "{name}");
    }

    // In the order of the head's rows, in which classes arrived.
    let output = run_fedcast(folder, &["export", "run", "-o", "model.safetensors"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let bytes = fs::read(folder.join("model.safetensors")).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let said: Value =
        serde_json::from_str(&header.metadata().as_ref().unwrap()["fedcast"]).unwrap();
    let classes = said["classes"].as_str().unwrap().split(',');
    let wanted: Vec<&str> = classes.map(|class| names[class.parse::<usize>().unwrap()]).collect();
    let listed: Vec<String> = serde_json::from_str(said["class_names"].as_str().unwrap()).unwrap();
    assert_eq!(listed, wanted);
    assert_ne!(listed, names, "the order is drawn");

    assert_eq!(run_fedcast(folder, &["report", "run", "-o", "page.html"]).code, 0);
    let page = read(folder.join("page.html"));
    for label in ["0 (3)", "1 (7)", "2 (100)"] {
        assert!(page.contains(&format!(">{label}<")), "{label}");
    }
}

#[test]
fn a_planned_partition_has_the_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder);
    let plan = |more: &[&str]| {
        let output = run_fedcast(folder, &[&["plan", "own.toml", "--partition"], more].concat());
        assert_eq!(output.code, 0, "{}", output.err);
        output.out
    };
    let planned: Value = serde_json::from_str(&plan(&["--format", "json"])).unwrap();
    let rows = planned["holdings"].as_array().unwrap();
    let names = ["3", "7", "100"];
    assert!(rows.iter().all(|row| row["name"] == names[row["class"].as_u64().unwrap() as usize]));
    assert_eq!(rows.len(), 6);
    let table = plan(&[]);
    assert!(names.iter().any(|name| table.contains(&format!("({name})"))), "{table}");
}
