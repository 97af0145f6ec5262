use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

mod published;

use super::*;
use crate::experiment::{Machine, names};
use crate::methods::Registry;
use crate::results::RunRecord;
use crate::scenario::ExpectedSection;
use crate::study::names::OWN_NAMES;
use crate::study::{CellFailure, CellState, Outcome};

const STUDY: &str = r#"schema = 2
base = "base.toml"
replicates = 3

[axes]
rounds = { key = "federation.rounds", values = [1, 2] }

[axes.method]
a_b = { method = { name = "fedavg" } }
hgp = { method = { name = "hgp" } }

[[exclude]]
rounds = 2
method = "a_b"

[[extra]]
label = "x, all"
set = { federation.rounds = 9 }

[compare]
baseline = { method = "a_b" }
metrics = ["faa", "bytes_up", "rounds_to:0.5"]
warn_if_unequal = ["failed"]
"#;

/// A finished run with these figures.
fn run(folder: &Path, faa: f64, up: u64, failed: u64) -> RunRecord {
    let manifest = serde_json::json!({
        "format": 2, "fedcast": "0.1.0", "status": "done",
        "scenario": { "name": "hand", "hash": "00" }, "method": "hgp",
        "seeds": { "run": 1, "partition": 2, "class_order": 3 },
        "data": null, "backbone": null, "level": "N", "workers": 1, "machine": Machine::here(),
        "digests": { "events": "ee", "numbers": "nn" },
    });
    let summary = serde_json::json!({
        "rounds": 7, "accuracy": { "faa": faa }, "failed": failed,
        "bytes": { "up": { "delivered": { "frames": 1, "bytes": up, "control": 1, "kinds": { "head": up - 1 } } } },
    });
    let seen = if faa > 0.5 { "0.6" } else { "0.4" };
    let rounds = format!("round,task,phase,participants,loss,accuracy_seen\n1,1,train,4,,{seen}\n");
    fs::create_dir_all(folder).unwrap();
    for (name, text) in [
        (names::MANIFEST, manifest.to_string()),
        (names::SCENARIO, "schema = 2\n".to_owned()),
        (names::SUMMARY, summary.to_string()),
        (names::ROUNDS, rounds),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    RunRecord::read(folder).unwrap()
}

/// Per cell of the study: accuracy, bytes and failed participants; `None` has failed.
const FIGURES: [Option<(f64, u64, u64)>; 12] = [
    // rounds=1, a_b
    Some((0.25, 1_000_000, 1)),
    Some((0.5, 2_000_000, 1)),
    None,
    // rounds=1, hgp
    Some((0.75, 5_000_000, 2)),
    Some((0.75, 6_000_000, 2)),
    Some((0.5, 9_000_000, 2)),
    // rounds=2, hgp
    Some((0.5, 1_000_000, 0)),
    Some((0.5, 1_000_000, 0)),
    Some((0.5, 1_000_000, 0)),
    // the extra one
    Some((0.625, 1_000_000, 0)),
    Some((0.625, 1_000_000, 0)),
    Some((0.625, 1_000_000, 0)),
];

fn outcomes(study: &Study, root: &Path) -> Outcomes {
    let outcome = |(cell, figures): (crate::study::Cell, Option<(f64, u64, u64)>)| {
        let error = "too few samples\nuse fewer clients".to_owned();
        let failure = CellFailure { hash: "00".into(), exit: Some(3), error };
        let run = figures.map(|(faa, up, failed)| run(&root.join(&cell.path), faa, up, failed));
        let state = if run.is_some() { CellState::Done } else { CellState::Failed(failure) };
        let (hash, expected) = ("00".into(), ExpectedSection::default());
        Outcome { cell, hash, expected, state, run, figures: BTreeMap::new() }
    };
    let cells = study.cells();
    assert_eq!(cells.len(), FIGURES.len());
    Outcomes {
        all: cells.into_iter().zip(FIGURES).map(outcome).collect(),
        metrics: Vec::new(),
        methods: Registry::builtin(),
    }
}

fn study() -> Study {
    Study::from_toml(STUDY, "a.study.toml", "a", Path::new("/s")).unwrap()
}

#[test]
fn means_deviations_best_arms_and_notes() {
    let root = tempfile::tempdir().unwrap();
    let study = study();
    let table = MainTable::of(&study, &outcomes(&study, root.path()));
    let markdown = table.to_markdown();
    let rows: Vec<&str> = markdown.lines().skip(2).take(4).collect();
    // 0.25 and 0.5 lie 0.125 from their mean: deviation sqrt(2) / 8. Only hgp ever reaches an accuracy of 0.5.
    assert_eq!(
        rows,
        [
            "| 1 | a_b [1] |  | 2 | 37.50 ± 17.68 | **1.500 ± 0.707** |  |",
            "| 1 | hgp [1] |  | 3 | **66.67 ± 14.43** | 6.667 ± 2.082 | **1 ± 0 (2)** |",
            "| 2 | hgp |  | 3 | 50.00 ± 0.00 | 1.000 ± 0.000 |  |",
            "|  |  | x, all | 3 | 62.50 ± 0.00 | 1.000 ± 0.000 | 1 ± 0 |",
        ]
    );
    assert!(markdown.ends_with("[1] failed differ: a_b 1, hgp 2\n"), "{markdown}");
    let csv = table.to_table().to_csv();
    let head = "label,rounds,method,n,faa_mean,faa_sd,faa_n,bytes_up_mean,bytes_up_sd,bytes_up_n,\
                rounds_to:0.5_mean,rounds_to:0.5_sd,rounds_to:0.5_n,note";
    assert_eq!(csv.lines().next(), Some(head));
    let row = csv.lines().nth(1).unwrap();
    let expected = "\"rounds=1, method=a_b\",1,a_b,2,0.375,0.1767766952966369,2,1500000,707106.7811865475,2,,,0,";
    assert!(row.starts_with(expected), "{row}");
}

#[test]
fn arms_are_compared_over_the_seeds_that_all_have() {
    let root = tempfile::tempdir().unwrap();
    let study = study();
    let mut outcomes = outcomes(&study, root.path());
    // The third seed of hgp, which a_b lacks: much better and much more expensive than all else.
    let path = root.path().join("other");
    outcomes.all[5].run = Some(run(&path, 1.0, 90_000_000, 90));
    for at in [3, 4] {
        outcomes.all[at].run = Some(run(&root.path().join(at.to_string()), 0.125, 1_000_000, 1));
    }
    let markdown = MainTable::of(&study, &outcomes).to_markdown();
    let rows: Vec<&str> = markdown.lines().skip(2).take(2).collect();
    assert!(rows[0].starts_with("| 1 | a_b |  | 2 | **37.50 ± 17.68** | 1.500 ±"), "{markdown}");
    assert!(rows[1].starts_with("| 1 | hgp |  | 3 | 41.67 ± "), "{markdown}");
    // 1.5 ± 0.707 and 1 ± 0 on seeds 1 and 2: the lead is smaller than a deviation.
    assert!(rows[1].contains("| 30.667 ± "), "{markdown}");
    assert!(!markdown.contains("[1]"), "on seeds 1 and 2 as many failed: {markdown}");
}

#[test]
fn a_table_in_print_has_methods_as_rows() {
    let root = tempfile::tempdir().unwrap();
    let text = format!("{STUDY}\n[report]\nnames = {{ a_b = \"A & B\" }}\n");
    let study = Study::from_toml(&text, "a.study.toml", "a", Path::new("/s")).unwrap();
    let tex = MainTable::of(&study, &outcomes(&study, root.path())).to_tex();
    insta::assert_snapshot!(tex);
    // The effective file has the names, too.
    let folder = Path::new("/s/studies/all");
    let again = study.to_effective_toml(folder);
    let again = Study::from_toml(&again, "effective.toml", "other", folder).unwrap();
    assert_eq!(again.report.names, [("a_b".to_owned(), "A & B".to_owned())]);
}

#[test]
fn a_table_of_one_axis_in_print_has_metrics_as_columns() {
    let root = tempfile::tempdir().unwrap();
    let text = STUDY.replace("values = [1, 2]", "values = [1]");
    let text = text.replace("rounds = 2\nmethod = \"a_b\"", "rounds = 1\nmethod = \"hgp\"");
    let study = Study::from_toml(&text, "a.study.toml", "a", Path::new("/s")).unwrap();
    let cells = study.cells();
    let outcome = |(cell, figures): (crate::study::Cell, (f64, u64, u64))| {
        let (faa, up, failed) = figures;
        let run = Some(run(&root.path().join(&cell.path), faa, up, failed));
        let (hash, expected) = ("00".into(), ExpectedSection::default());
        Outcome { cell, hash, expected, state: CellState::Done, run, figures: BTreeMap::new() }
    };
    // One method and an extra cell, three seeds each.
    assert_eq!(cells.len(), 6);
    let figures =
        [(0.5, 1, 1), (0.625, 1, 1), (0.75, 1, 1), (0.25, 2, 1), (0.25, 2, 1), (0.25, 2, 1)];
    let all = cells.into_iter().zip(figures).map(outcome).collect();
    let outcomes = Outcomes { all, metrics: Vec::new(), methods: Registry::builtin() };
    insta::assert_snapshot!(MainTable::of(&study, &outcomes).to_tex());
}

#[test]
fn names_in_print_are_of_arms() {
    let text = format!("{STUDY}\n[report]\nnames = {{ a_c = \"A & B\" }}\n");
    let error = Study::from_toml(&text, "a.study.toml", "a", Path::new("/s")).unwrap_err();
    assert!(error.to_string().contains("did you mean `a_b`?"), "{error}");
}

#[test]
fn p_values_are_corrected_for_the_tests_of_a_metric() {
    let root = tempfile::tempdir().unwrap();
    let text = STUDY.replace("{ method = \"a_b\" }", "{ label = \"x, all\" }");
    let study = Study::from_toml(&text, "a.study.toml", "a", Path::new("/s")).unwrap();
    let differences = differences(&study, &outcomes(&study, root.path()));
    let of = |name: &str| -> Vec<(Option<f64>, Option<f64>)> {
        let of_metric = differences.iter().filter(|one| one.metric.name() == name);
        of_metric.map(|one| (one.paired.p, one.p_holm)).collect()
    };
    let faa = of("faa");
    assert_eq!(faa[2], (None, None), "equal differences have no test");
    let [first, second] = [faa[0], faa[1]].map(|(p, adjusted)| (p.unwrap(), adjusted.unwrap()));
    // Two tests: the smaller p counts twice, and the larger is at least that.
    let (small, large) = if first.0 < second.0 { (first, second) } else { (second, first) };
    assert!((small.1 - (2.0 * small.0).min(1.0)).abs() < 1e-12, "{small:?}");
    assert_eq!(large.1, large.0.max(small.1), "{large:?}");
    let csv = paired::table(&study, &differences).to_csv();
    assert!(csv.lines().next().unwrap().contains(",p,p_holm,test,"), "{csv}");
}

#[test]
fn a_point_without_a_run_has_no_note() {
    let root = tempfile::tempdir().unwrap();
    let more = "hgp = { method = { name = \"hgp\" } }\nlate = { method = { name = \"stsa\" } }\n";
    let text = STUDY.replace("hgp = { method = { name = \"hgp\" } }\n", more);
    let study = Study::from_toml(&text, "a.study.toml", "a", Path::new("/s")).unwrap();
    let figures = |method: &str| match method {
        "late" => None,
        "hgp" => Some((0.5, 2, 1)),
        _ => Some((0.5, 2, 0)),
    };
    let outcome = |cell: crate::study::Cell| {
        let method = ["late", "hgp"].into_iter().find(|m| study.label(&cell.point).contains(m));
        let figures = figures(method.unwrap_or_default());
        let run =
            figures.map(|(faa, up, failed)| run(&root.path().join(&cell.path), faa, up, failed));
        Outcome {
            cell,
            hash: "00".into(),
            expected: ExpectedSection::default(),
            state: CellState::Waiting,
            run,
            figures: BTreeMap::new(),
        }
    };
    let all = study.cells().into_iter().map(outcome).collect();
    let outcomes = Outcomes { all, metrics: Vec::new(), methods: Registry::builtin() };
    let markdown = MainTable::of(&study, &outcomes).to_markdown();
    assert!(
        markdown.contains("| 1 | a_b [1] |") && markdown.contains("| 1 | hgp [1] |"),
        "{markdown}"
    );
    assert!(markdown.contains("| 1 | late |  | 0 |"), "{markdown}");
}

#[test]
fn differences_pair_seeds_and_subtract_the_baseline() {
    let root = tempfile::tempdir().unwrap();
    let study = study();
    let differences = differences(&study, &outcomes(&study, root.path()));
    let rows: Vec<String> = differences
        .iter()
        .map(|one| {
            let (label, against) = (study.label(&one.point), study.label(&one.against));
            format!("{label} - {against}: {} {} of {}", one.metric, one.paired.mean, one.paired.n)
        })
        .collect();
    // Seeds 1 and 2 only: the third run of the baseline failed. Rows of rounds=2 have no baseline, nor has the extra
    // cell.
    assert_eq!(
        rows,
        [
            "rounds=1, method=hgp - rounds=1, method=a_b: faa 0.375 of 2",
            "rounds=1, method=hgp - rounds=1, method=a_b: bytes_up 4000000 of 2",
        ]
    );
    let csv = paired::table(&study, &differences).to_csv();
    let line = csv.lines().nth(1).unwrap();
    assert!(
        line.starts_with("\"rounds=1, method=hgp\",1,hgp,\"rounds=1, method=a_b\",faa,0.375,"),
        "{line}"
    );
}

#[test]
fn an_extra_cell_may_be_the_baseline_of_all() {
    let root = tempfile::tempdir().unwrap();
    let text = STUDY.replace("{ method = \"a_b\" }", "{ label = \"x, all\" }");
    let study = Study::from_toml(&text, "a.study.toml", "a", Path::new("/s")).unwrap();
    let differences = differences(&study, &outcomes(&study, root.path()));
    let faa = differences.iter().filter(|one| one.metric.name() == "faa");
    let means: Vec<f64> = faa.map(|one| one.paired.mean).collect();
    assert_eq!(means, [-0.25, 0.125 / 3.0, -0.125]);
}

#[test]
fn a_row_per_run_and_per_round_in_both_formats() {
    let root = tempfile::tempdir().unwrap();
    let study = study();
    let outcomes = outcomes(&study, root.path());
    let cells = cells::table(&study, &outcomes);
    let names: Vec<&str> = cells.columns().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..6], ["label", "rounds", "method", "seed", "seed_run", "seed_partition"]);
    let distinct: std::collections::BTreeSet<&&str> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "no column twice: {names:?}");
    let entry = |row: usize, name: &str| {
        let column = names.iter().position(|other| *other == name).unwrap();
        cells.rows()[row][column].clone()
    };
    assert_eq!(entry(3, "rounds"), TableCell::Integer(1));
    assert_eq!(
        entry(3, "run_rounds"),
        TableCell::Integer(7),
        "the metric has another name next to the axis"
    );
    assert_eq!(entry(4, "bytes_up_head"), TableCell::Integer(5_999_999));
    assert_eq!(entry(2, "error"), "too few samples".into());
    assert_eq!((entry(2, "status"), entry(2, "faa")), ("failed".into(), TableCell::Empty));
    assert_eq!(entry(9, "rounds"), TableCell::Empty, "an extra cell has no place on an axis");
    assert_eq!(entry(9, "path"), "x,all/seed-1".into());
    assert_eq!(entry(8, "rounds_to:0.5"), TableCell::Empty);
    assert_eq!(entry(3, "rounds_to:0.5"), TableCell::Integer(1));
    let file = cells.to_parquet().unwrap();
    assert_eq!((&file[..4], &file[file.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));

    let rounds = rounds::table(&study, &outcomes).unwrap().to_csv();
    let lines: Vec<&str> = rounds.lines().collect();
    assert_eq!(
        lines[0],
        "label,rounds,method,seed,round,task,phase,participants,loss,accuracy_seen"
    );
    assert_eq!(lines.len(), 12, "a head and a round of each of eleven runs");
    assert_eq!(lines[3], "\"rounds=1, method=hgp\",1,hgp,1,1,1,train,4,,0.6");
}

#[test]
fn the_effective_study_gives_the_same_cells() {
    let study = study();
    let folder = study.base.as_ref().unwrap().parent().unwrap().join("studies/all");
    let text = study.to_effective_toml(&folder);
    assert!(text.contains("base = \"../../"), "{text}");
    let again = Study::from_toml(&text, "effective.toml", "other", &folder).unwrap();
    assert_eq!(again.to_effective_toml(&folder), text);
    assert_eq!(again.cells(), study.cells());
    assert_eq!(
        (again.axes, again.extras, again.compare),
        (study.axes, study.extras, study.compare)
    );
}

#[test]
fn a_cell_never_has_the_name_of_a_file_of_its_study() {
    let root = tempfile::tempdir().unwrap();
    let text = STUDY.replace("label = \"x, all\"", "label = \"Cells.csv\"");
    let study = Study::from_toml(&text, "a.study.toml", "a", Path::new("/s")).unwrap();
    let last = study.cells().pop().unwrap();
    assert_eq!(last.path, Path::new("Cells.csv~/seed-3"));
    write(&study, &StudyDirectory::new(root.path().to_owned()), &outcomes(&study, root.path()))
        .unwrap();
    let entries = fs::read_dir(root.path()).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.path().is_file()).map(|entry| entry.file_name());
    let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    files.sort();
    let mut own: Vec<&str> = OWN_NAMES.into_iter().filter(|name| *name != "features").collect();
    own.sort();
    assert_eq!(files, own);
}

#[test]
fn a_kind_of_bytes_among_the_metrics_has_one_column() {
    let root = tempfile::tempdir().unwrap();
    let text = STUDY.replace("\"bytes_up\",", "\"bytes_up\", \"bytes_up_head\",");
    let study = Study::from_toml(&text, "a.study.toml", "a", Path::new("/s")).unwrap();
    let cells = cells::table(&study, &outcomes(&study, root.path()));
    let names = cells.columns().iter().map(|(name, _)| name.as_str());
    let of_kind: Vec<&str> = names.filter(|name| name.ends_with("bytes_up_head")).collect();
    assert_eq!(of_kind, ["bytes_up_head"]);
}

/// Later changes replace earlier ones, so that their order counts.
#[test]
fn the_effective_study_keeps_the_order_of_changes() {
    let text = "schema = 2\nbase = \"a.toml\"\nreplicates = 1\n[axes.a]\n\
                one = { method.name = \"fedavg\", client.epochs = 9, client.batch_size = 4 }\n";
    let folder = Path::new("studies");
    let study = Study::from_toml(text, "a.study.toml", "a", folder).unwrap();
    let again = study.to_effective_toml(folder);
    let place = |key: &str| again.find(key).unwrap_or_else(|| panic!("{key}: {again}"));
    assert!(place("method.name") < place("client.epochs"), "{again}");
    assert!(place("client.epochs") < place("client.batch_size"), "{again}");
    let read = Study::from_toml(&again, "effective.toml", "a", folder).unwrap();
    assert_eq!(read.axes, study.axes);
}
