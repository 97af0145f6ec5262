//! Promises: numbers of a table belong to the names of their columns, labels to their values and names, whatever file
//! they are in; what is missing, there twice or of no use is refused or said.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use serde_json::Value;

use crate::command::{CommandOutput, read, run_fedcast};

/// Two rows for each of three classes, which column `a` separates.
const ROWS: [(&str, [f32; 2]); 6] = [
    ("0", [0.0, 3.0]),
    ("2", [5.0, 1.0]),
    ("10", [10.0, 2.0]),
    ("10", [11.0, 4.0]),
    ("2", [6.0, 2.0]),
    ("0", [1.0, 0.5]),
];

/// A folder with a scenario and these files in `data`.
fn folder(files: &[(&str, &str)], more: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "schema = 2\ndata = {{ source = \"table\", path = \"data\", width = 2{more} }}\ntasks = {{ count = 1 }}\n\
         partition = {{ kind = \"iid\", min_samples = 0 }}\nbackbone = {{ kind = \"pixels\" }}\n\
         method = {{ name = \"fedavg\" }}\nfederation = {{ clients = 2, rounds = 1 }}\n\
         client = {{ epochs = 1, batch_size = 4 }}\n"
    );
    fs::write(folder.path().join("s.toml"), text).unwrap();
    for (name, text) in files {
        let path = folder.path().join("data").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// A CSV file of the rows, with columns in this order and labels as `spelled` writes them.
fn table(order: &[&str], spelled: impl Fn(&str) -> String) -> String {
    let line = |(label, [a, b]): &(&str, [f32; 2])| {
        let cell = |column: &&str| match *column {
            "label" => spelled(label),
            "a" => a.to_string(),
            "b" => b.to_string(),
            other => panic!("{other}"),
        };
        order.iter().map(cell).collect::<Vec<_>>().join(",")
    };
    let lines: Vec<String> = ROWS.iter().map(line).collect();
    format!("{}\n{}\n", order.join(","), lines.join("\n"))
}

fn run(folder: &Path) -> CommandOutput {
    run_fedcast(folder, &["run", "s.toml", "-q", "-o", "run"])
}

/// Digests of data and results of a run that has to work.
fn digests(files: &[(&str, &str)]) -> (Value, Value) {
    let folder = folder(files, "");
    let output = run(folder.path());
    assert_eq!(output.code, 0, "{}", output.err);
    let manifest = read(folder.path().join("run/manifest.json"));
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    (manifest["data"].clone(), manifest["digests"].clone())
}

/// The message of a run that has to end with code 6.
fn refused(files: &[(&str, &str)], more: &str) -> String {
    let folder = folder(files, more);
    let output = run(folder.path());
    assert_eq!(output.code, 6, "{}", output.err);
    assert!(!folder.path().join("run/matrix.csv").exists());
    // The plan says the same.
    let plan = run_fedcast(folder.path(), &["plan", "s.toml"]);
    assert_eq!((plan.code, &plan.err), (6, &output.err));
    output.err
}

#[test]
fn columns_belong_to_their_names_and_labels_to_values() {
    let plain = table(&["label", "a", "b"], str::to_owned);
    let expected = digests(&[("train.csv", &plain), ("test.csv", &plain)]);
    let turned = table(&["b", "label", "a"], |label| format!("{label}.0"));
    assert_eq!(digests(&[("train.csv", &plain), ("test.csv", &turned)]), expected);
    let (one, other) =
        (plain.lines().take(4), turned.lines().take(1).chain(turned.lines().skip(4)));
    let shards: Vec<String> =
        [one.collect::<Vec<_>>(), other.collect()].iter().map(|lines| lines.join("\n")).collect();
    let shards = [
        ("train-00000-of-00002.csv", shards[0].as_str()),
        ("train-00001-of-00002.csv", shards[1].as_str()),
        ("test.csv", plain.as_str()),
    ];
    assert_eq!(digests(&shards), expected);
    // The difference is not the order of the rows of one class alone.
    let swapped = plain.replacen("label,a,b", "label,b,a", 1);
    assert_ne!(digests(&[("train.csv", &plain), ("test.csv", &swapped)]), expected);
    let other = plain.replacen("label,a,b", "label,a,c", 1);
    let message = refused(&[("train.csv", &plain), ("test.csv", &other)], "");
    assert!(message.contains("test.csv: expected the columns of"), "{message}");
    assert!(message.contains("no column `b`, in addition `c`"), "{message}");
}

#[test]
fn missing_labels_and_owners_are_refused_with_file_and_line() {
    let test = ("test.csv", "label,user,a,b\n0,,1,1\n1,NaN,2,2\n");
    for (cell, found) in [("", "none"), ("NaN", "`NaN`"), ("null", "`null`"), ("None", "`None`")] {
        let train = format!("label,user,a,b\n0,u,1,1\n{cell},v,2,2\n");
        let message = refused(&[("train.csv", &train), test], ", client = \"user\"");
        let expected =
            format!("train.csv:3: expected a value of `label` in every row, found {found}");
        assert!(message.contains(&expected), "{message}");
        let train = format!("label,user,a,b\n0,u,1,1\n1,{cell},2,2\n");
        let message = refused(&[("train.csv", &train), test], ", client = \"user\"");
        assert!(message.contains("train.csv:3: expected a value of `user`"), "{message}");
    }
    let whole = [("train.csv", "label,user,a,b\n0,u,1,1\n1,v,2,2\n"), test];
    let folder = folder(&whole, ", client = \"user\"");
    let output = run(folder.path());
    assert_eq!(output.code, 0, "nobody asks whose the tests are: {}", output.err);
}

#[test]
fn unnamed_columns_do_not_become_features() {
    let test = ("test.csv", "label,a,b\n0,1,1\n1,2,2\n");
    let message = refused(&[("train.csv", "label,a,b,label\n0,1,1,0\n1,2,2,1\n"), test], "");
    assert!(
        message.contains("expected columns of different names, found `label` twice"),
        "{message}"
    );
    let indexed = [("train.csv", ",label,a,b\n0,0,1,1\n1,1,2,2\n"), test];
    let folder = folder(&indexed, "");
    let output = run(folder.path());
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(
        output.err.contains("which has no name, is left out as an index of rows"),
        "{}",
        output.err
    );
    let plan = run_fedcast(folder.path(), &["plan", "s.toml"]);
    assert!(plan.err.contains("a row is the columns `a`, `b`"), "{}", plan.err);
    let wide = run_fedcast(folder.path(), &["plan", "s.toml", "--set", "data.width=3"]);
    assert_eq!(wide.code, 6);
    assert!(wide.err.contains("rows of 2: a, b, without an index of rows"), "{}", wide.err);
}

/// The rows as a stream of Arrow, with columns in this order.
fn arrow(order: [&str; 3]) -> Vec<u8> {
    let column = |name: &str| -> ArrayRef {
        match name {
            "label" => Arc::new(ROWS.iter().map(|row| Some(row.0)).collect::<StringArray>()),
            "a" => Arc::new(ROWS.iter().map(|row| row.1[0]).collect::<Float32Array>()),
            _ => Arc::new(ROWS.iter().map(|row| f64::from(row.1[1])).collect::<Float64Array>()),
        }
    };
    let batch = RecordBatch::try_from_iter(order.map(|name| (name, column(name)))).unwrap();
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn folders_of_save_to_disk_are_tables() {
    let plain = table(&["label", "a", "b"], str::to_owned);
    let expected = digests(&[("train.csv", &plain), ("test.csv", &plain)]);
    let state = r#"{"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": null}"#;
    let saved = [
        ("dataset_dict.json", r#"{"splits": ["train", "test"]}"#),
        ("train/state.json", state),
        ("test/state.json", state),
    ];
    let folder = folder(&saved, "");
    let file = |part: &str| folder.path().join("data").join(part).join("data-00000-of-00001.arrow");
    fs::write(file("train"), arrow(["label", "a", "b"])).unwrap();
    fs::write(file("test"), arrow(["b", "label", "a"])).unwrap();
    let output = run(folder.path());
    assert_eq!(output.code, 0, "{}", output.err);
    let manifest = read(folder.path().join("run/manifest.json"));
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!((manifest["data"].clone(), manifest["digests"].clone()), expected);
    let whole = fs::read(file("test")).unwrap();
    for tenth in 0..10 {
        fs::write(file("test"), &whole[..whole.len() * tenth / 10]).unwrap();
        let output = run_fedcast(folder.path(), &["plan", "s.toml"]);
        assert_eq!(output.code, 6, "{}", output.err);
        assert!(output.err.contains("test/data-00000-of-00001.arrow: expected"), "{}", output.err);
    }
}
