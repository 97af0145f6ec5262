use std::fs;

use super::*;
use crate::methods::Registry;
use crate::scenario::{ExpectedMetric, Override, Scenario};
use crate::study::{Cell, Point, Study};

const STUDY: &str = r#"schema = 2
replicates = 2

[axes.method]
one = {}
two = { client.epochs = 2 }
Joint = {}

[axes.beta]
wide = {}
"narrow, 0.1" = { federation.clients = 3 }

[[cell]]
method = "one"
scenario = "one.toml"

[[cell]]
method = "two"
scenario = "two.toml"
set = { federation.rounds = 3, client.batch_size = 8 }

[[cell]]
method = "two"
beta = "narrow, 0.1"
set = { federation.rounds = 4 }
expected = { faa = 71.2, deviation = { faa = 0.8 } }
"#;

const SCENARIO: &str = "schema = 2\ndata = { source = \"digits\", subset = 12 }\n\
                        tasks = { sizes = [5, 5] }\npartition = { kind = \"iid\" }\n\
                        method = { name = \"fedavg\", train = \"head\" }\nbackbone = { kind = \"pixels\" }\n\
                        [expected]\nsource = \"Table 1\"\n";

fn study(folder: &Path, text: &str) -> Result<Study, String> {
    let read = Study::from_toml(text, "a.study.toml", "a", folder);
    read.map_err(|error| error.to_string())
}

/// A folder with both scenarios, which publish 61 and 62.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, faa) in [("one.toml", 61), ("two.toml", 62)] {
        fs::write(folder.path().join(name), format!("{SCENARIO}faa = {faa}\n")).unwrap();
    }
    folder
}

fn cell(study: &Study, label: &str) -> Cell {
    let mut cells = study.cells().into_iter();
    // The second seed, which must not count as a change.
    cells.rfind(|cell| study.label(&cell.point) == label).unwrap()
}

fn scenario(study: &Study, label: &str, sets: &[&str]) -> Scenario {
    let sets: Vec<Override> = sets.iter().map(|set| Override::new(*set)).collect();
    let loaded = study.scenario(&cell(study, label), &sets, &Registry::builtin());
    loaded.unwrap_or_else(|error| panic!("{label}: {error}")).scenario
}

/// Published numbers of a cell, and the changes that they do not include.
fn published(study: &Study, label: &str, sets: &[&str]) -> (f64, Vec<String>) {
    let expected = scenario(study, label, sets).expected;
    (expected.numbers[&ExpectedMetric::Faa], expected.overrides)
}

#[test]
fn cells_without_a_scenario_are_left_out() {
    let folder = folder();
    let labels = |text: &str| -> Vec<String> {
        let study = study(folder.path(), text).unwrap();
        study.points().iter().map(|point| study.label(point)).collect()
    };
    let four = [
        "method=one, beta=wide",
        "method=one, beta=narrow, 0.1",
        "method=two, beta=wide",
        "method=two, beta=narrow, 0.1",
    ];
    assert_eq!(labels(STUDY), four);
    let with_base = STUDY.replacen("replicates", "base = \"one.toml\"\nreplicates", 1);
    assert_eq!(labels(&with_base).len(), 6);
}

/// The scenario of the last entry counts, and changes apply after those of arms, in order.
#[test]
fn later_entries_override_earlier_ones() {
    let folder = folder();
    let study_of = |text: &str| study(folder.path(), text).unwrap();
    let study = study_of(STUDY);
    let rounds = |label: &str| {
        let scenario = scenario(&study, label, &[]);
        (scenario.federation.rounds, scenario.federation.clients, scenario.client.epochs)
    };
    let usual = scenario(&study, "method=one, beta=wide", &[]);
    let (clients, epochs) = (usual.federation.clients, usual.client.epochs);
    assert_eq!(rounds("method=two, beta=wide"), (3, clients, 2));
    assert_eq!(rounds("method=two, beta=narrow, 0.1"), (4, 3, 2));
    let narrow = scenario(&study, "method=two, beta=narrow, 0.1", &[]);
    assert_eq!(narrow.client.batch_size, 8, "of the entry before");
    assert_eq!((narrow.seed.run, narrow.seed.partition), (2, 2));
    assert_ne!(epochs, 2);

    let over_arm = STUDY.replace("federation.rounds = 4", "client.epochs = 9");
    let over_arm = study_of(&over_arm);
    assert_eq!(scenario(&over_arm, "method=two, beta=narrow, 0.1", &[]).client.epochs, 9);

    let other = "[[cell]]\nmethod = \"two\"\nbeta = \"wide\"\nscenario = \"one.toml\"\n";
    let other = study_of(&format!("{STUDY}{other}"));
    assert_eq!(published(&other, "method=two, beta=wide", &[]).0, 61.0);
}

#[test]
fn numbers_of_a_file_are_of_the_file_as_it_stands() {
    let folder = folder();
    let study = study(folder.path(), STUDY).unwrap();
    let none: Vec<String> = Vec::new();
    assert_eq!(published(&study, "method=one, beta=wide", &[]), (61.0, none));
    // Neither arms nor `set` of an entry without numbers are in them.
    let (number, changes) = published(&study, "method=two, beta=wide", &["devices.workers=1"]);
    assert_eq!(number, 62.0);
    let all = ["client.epochs=2", "federation.rounds=3", "client.batch_size=8"];
    assert_eq!(changes, [&all[..], &["devices.workers=1"]].concat());
}

#[test]
fn numbers_of_a_cell_are_of_its_arms_and_their_changes() {
    let folder = folder();
    let study_of = |text: &str| study(folder.path(), text).unwrap();
    let label = "method=two, beta=narrow, 0.1";
    let here = study_of(STUDY);
    assert_eq!(published(&here, label, &[]), (71.2, Vec::new()));
    let expected = scenario(&here, label, &[]).expected;
    assert_eq!(expected.source.as_deref(), Some("Table 1"), "of the file that it replaces");
    assert_eq!(expected.deviation[&ExpectedMetric::Faa], 0.8);
    let sizes = |sizes: &str| published(&here, label, &[&format!("tasks.sizes={sizes}")]).1;
    assert_eq!(sizes("[5, 5]"), [""; 0], "as the file says anyway");
    assert_eq!(sizes("[4, 6]"), ["tasks.sizes=[4, 6]"]);

    let set = STUDY.replacen("replicates", "set = { client.optimizer.lr = 0.5 }\nreplicates", 1);
    let (_, changes) = published(&study_of(&set), label, &[]);
    assert_eq!(changes, ["client.optimizer.lr=0.5"]);

    // Numbers of a method on any data do not include what the data change.
    let of_method = STUDY.replace("beta = \"narrow, 0.1\"\nset = { fed", "set = { fed");
    let of_method = study_of(&of_method);
    assert_eq!(published(&of_method, label, &[]).1, ["federation.clients=3"]);

    let without = study_of(&STUDY.replace("{ faa = 71.2, deviation = { faa = 0.8 } }", "{}"));
    assert!(scenario(&without, label, &[]).expected.is_empty());
    // An arm with its own numbers.
    let arm = STUDY.replace("client.epochs = 2 }", "client.epochs = 2, expected.faa = 50 }");
    let (number, changes) = published(&study_of(&arm), "method=two, beta=wide", &[]);
    assert_eq!(number, 50.0);
    assert_eq!(changes, ["federation.rounds=3", "client.batch_size=8"]);
}

#[test]
fn the_effective_study_has_the_same_cells_and_numbers() {
    let folder = folder();
    let study_of = |text: &str, folder: &Path| study(folder, text).unwrap();
    let grid = "[report]\ngrid = { rows = \"method\", columns = \"beta\" }\n";
    let here = study_of(&format!("{STUDY}{grid}"), folder.path());
    let below = folder.path().join("studies/a");
    fs::create_dir_all(&below).unwrap();
    let text = here.to_effective_toml(&below);
    assert!(text.contains("scenario = \"../../two.toml\""), "{text}");
    assert!(!text.contains("base ="), "{text}");
    let again = study_of(&text, &below);
    assert_eq!(again.to_effective_toml(&below), text);
    assert_eq!((again.cells(), &again.report), (here.cells(), &here.report));
    for point in here.points() {
        let label = here.label(&point);
        let [mut one, mut other] = [&here, &again].map(|study| scenario(study, &label, &[]));
        // A table of changes is written in the order of its keys.
        for scenario in [&mut one, &mut other] {
            scenario.expected.overrides.sort();
        }
        assert_eq!(one, other, "{label}");
    }
    assert!(matches!(here.points()[0], Point::Grid(_)));
}

#[test]
fn mistakes_are_shown_at_their_places() {
    let folder = folder();
    for (from, to, place, hint) in [
        ("method = \"two\"\nbeta", "method = \"twoo\"\nbeta", "23:10", "did you mean `two`?"),
        ("beta = \"narrow, 0.1\"\nset", "bata = \"narrow, 0.1\"\nset", "24:8", "`beta`"),
        ("beta = \"narrow, 0.1\"\nset", "seting = 1\nset", "24:10", "there is no axis `seting`"),
        ("scenario = \"one.toml\"", "scenario = 1", "15:12", "must be a string"),
        ("scenario = \"one.toml\"", "", "13:1", "a [[cell]] needs something"),
        ("method = \"one\"\n", "", "13:1", "a [[cell]] without an arm"),
        ("faa = 71.2,", "fa = 71.2,", "26:14", "did you mean `faa`?"),
        ("rounds = 4", "rounds = 4, seed.run = 3", "25:7", "with `replicates` or `seeds`"),
        ("[axes.beta]", "[axes.set]", "9:1", "cannot have the name `set`"),
        (
            "[[cell]]\nmethod = \"one\"",
            "[[exclude]]\nmethod = \"one\"\n[[cell]]\nmethod = \"one\"",
            "15:1",
            "no cell of the grid",
        ),
    ] {
        assert!(STUDY.contains(from), "{from}");
        let error = study(folder.path(), &STUDY.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(hint), "{to}: {error}");
        assert!(error.contains(&format!("a.study.toml:{place}\n")), "{to}: {error}");
    }
    let bare = "schema = 2\n[axes.a]\nx = {}\n[[cell]]\na = \"x\"\nset = { client.epochs = 2 }\n";
    let error = study(folder.path(), bare).unwrap_err();
    assert!(error.contains("no cell of this study has a scenario"), "{error}");
    let error = study(folder.path(), &format!("{STUDY}[[extra]]\nlabel = \"x\"\n")).unwrap_err();
    assert!(error.contains("a.study.toml:27:1\n"), "{error}");
    assert!(error.contains("the `base`, which this study lacks"), "{error}");
}

#[test]
fn a_missing_scenario_is_shown_in_its_entry() {
    let folder = folder();
    let study = study(folder.path(), &STUDY.replace("one.toml", "gone.toml")).unwrap();
    let wide = cell(&study, "method=one, beta=wide");
    let error = study.scenario(&wide, &[], &Registry::builtin()).unwrap_err().to_string();
    assert!(error.contains("cannot read the scenario ") && error.contains("gone.toml"), "{error}");
    assert!(error.contains("a.study.toml:15:12\n"), "{error}");
    assert_eq!(published(&study, "method=two, beta=wide", &[]).0, 62.0);
}
