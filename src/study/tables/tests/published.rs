use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{STUDY, outcomes};
use crate::scenario::{ExpectedMetric, ExpectedSection};
use crate::study::Study;
use crate::study::collect::Outcomes;
use crate::study::tables::{MainTable, PublishedGrids, TABLE_FILE};

/// Points of the grid `rounds` by `method`, with published numbers of three of them.
fn with_published(study: &Study, root: &Path) -> Outcomes {
    let mut outcomes = outcomes(study, root);
    for outcome in &mut outcomes.all {
        let label = study.label(&outcome.cell.point);
        let (faa, deviation, changes): (f64, Option<f64>, &[&str]) = match label.as_str() {
            "rounds=1, method=a_b" => (76.54, Some(1.14), &["client.epochs=2"]),
            "rounds=1, method=hgp" => (60.0, None, &["client.epochs=2", "wire.up=1"]),
            "rounds=2, method=hgp" => (61.0, None, &["client.epochs=2", "wire.up=1"]),
            _ => continue,
        };
        let faa_is = |number: f64| BTreeMap::from([(ExpectedMetric::Faa, number)]);
        outcome.expected = ExpectedSection {
            source: Some("Table 1".to_owned()),
            numbers: BTreeMap::from([(ExpectedMetric::Faa, faa), (ExpectedMetric::Micro, 5.0)]),
            deviation: deviation.map(faa_is).unwrap_or_default(),
            overrides: changes.iter().map(|change| (*change).to_owned()).collect(),
            ..ExpectedSection::default()
        };
    }
    outcomes
}

fn grid_study() -> Study {
    let text = format!("{STUDY}[report]\ngrid = {{ rows = \"method\", columns = \"rounds\" }}\n");
    Study::from_toml(&text, "a.study.toml", "a", Path::new("/s")).unwrap()
}

#[test]
fn published_numbers_stand_next_to_means() {
    let root = tempfile::tempdir().unwrap();
    let study = grid_study();
    let table = MainTable::of(&study, &with_published(&study, root.path()));
    let csv = table.to_table().to_csv();
    let mut lines = csv.lines();
    // `micro` is published only.
    let head = "label,rounds,method,n,faa_mean,faa_sd,faa_n,faa_published,faa_published_sd,bytes_up_mean,\
                bytes_up_sd,bytes_up_n,rounds_to:0.5_mean,rounds_to:0.5_sd,rounds_to:0.5_n,micro_mean,micro_sd,\
                micro_n,micro_published,micro_published_sd,published_source,published_changes,note";
    assert_eq!(lines.next(), Some(head));
    let row = lines.next().unwrap();
    assert!(row.contains(",0.375,0.1767766952966369,2,0.7654,0.0114,"), "{row}");
    assert!(row.contains(",,,0,0.05,,Table 1,client.epochs=2,"), "{row}");
    let row = lines.next().unwrap();
    assert!(row.contains(",Table 1,client.epochs=2; wire.up=1,"), "{row}");
    let markdown = table.to_markdown();
    let row =
        "| 1 | a_b [1] |  | 2 | 37.50 ± 17.68 | 76.54 ± 1.14 | **1.500 ± 0.707** |  |  | 5.00 |";
    assert!(markdown.contains(row), "{markdown}");
    assert!(
        markdown.starts_with("| rounds | method |  | n | final average accuracy, % | published |")
    );
    let tex = table.to_tex();
    let parts: Vec<&str> = tex.split("\\midrule").collect();
    let part = |title: &str| parts.iter().find(|part| part.contains(title));
    let row = "\na\\_b & $37.50 \\pm 17.68\\,(2)$";
    assert!(part("\\emph{FAA (\\%)}").unwrap().contains(row), "{tex}");
    let row = "\na\\_b & $76.54 \\pm 1.14$";
    assert!(part("\\emph{FAA (\\%), published}").unwrap().contains(row), "{tex}");
    // `micro` is published only.
    assert!(
        part("\\emph{Accuracy (\\%)}").is_none() && part("Accuracy (\\%), published").is_some()
    );
    let text = table.to_text();
    assert!(text.contains("37.50 ± 17.68") && text.contains("76.54 ± 1.14"), "{text}");
}

/// The excluded cell is empty, and one without runs has a dash.
#[test]
fn a_grid_has_published_and_measured_numbers() {
    let root = tempfile::tempdir().unwrap();
    let study = grid_study();
    let mut outcomes = with_published(&study, root.path());
    for outcome in &mut outcomes.all {
        if study.label(&outcome.cell.point) == "rounds=2, method=hgp" {
            outcome.run = None;
        }
    }
    let table = MainTable::of(&study, &outcomes);
    let grids = "\nfinal average accuracy, %, published / measured:\n\n\
                 | method | 1 | 2 |\n|---|---:|---:|\n\
                 | a_b | 76.54 ± 1.14 / 37.50 ± 17.68 |  |\n\
                 | hgp | 60.00 / 66.67 ± 14.43 | 61.00 / - |\n\
                 \naccuracy on all test samples, %, published / measured:\n\n\
                 | method | 1 | 2 |\n|---|---:|---:|\n\
                 | a_b | 5.00 / - |  |\n\
                 | hgp | 5.00 / - | 5.00 / - |\n\
                 \nPublished: Table 1.\n\
                 \nAll cells differ from the files of the published numbers as they stand: --set client.epochs=2\n\
                 \nCells with method=hgp differ from the files of the published numbers as they stand: \
                 --set wire.up=1\n";
    let markdown = table.to_markdown();
    assert!(markdown.ends_with(grids), "{markdown}");
    // The report reads the same from the file.
    let file = root.path().join(TABLE_FILE);
    fs::write(&file, table.to_table().to_csv()).unwrap();
    let read = PublishedGrids::read(&study, &file).unwrap();
    assert_eq!(read.to_markdown(), grids);
    assert_eq!(read.grids.len(), 2);
    let none = PublishedGrids::read(&study, &root.path().join("none.csv")).unwrap();
    assert_eq!(none, PublishedGrids::default());
    let plain = super::study();
    let without = MainTable::of(&plain, &with_published(&plain, root.path()));
    assert!(!without.to_markdown().contains("published / measured"));
}

/// Other axes have one grid for each of their arms.
#[test]
fn arms_of_a_third_axis_have_grids_of_their_own() {
    let root = tempfile::tempdir().unwrap();
    let text = "schema = 2\nbase = \"base.toml\"\n[axes]\na.x = {}\nb = { key = \"client.epochs\", values = [1, 2] }\n\
                c.y = {}\n[report]\ngrid = { rows = \"a\", columns = \"c\" }\n";
    let study = Study::from_toml(text, "a.study.toml", "a", Path::new("/s")).unwrap();
    let csv = "label,faa_mean,faa_sd,faa_n,faa_published,faa_published_sd,published_changes\n\
               \"a=x, b=1, c=y\",0.5,,1,0.25,,\n\"a=x, b=2, c=y\",,,0,0.75,0.5,z=1\n";
    let file = root.path().join(TABLE_FILE);
    fs::write(&file, csv).unwrap();
    let read = PublishedGrids::read(&study, &file).unwrap();
    let titles: Vec<_> = read.grids.iter().map(|grid| (&*grid.title, &*grid.rows[0][1])).collect();
    assert_eq!(
        titles,
        [
            ("final average accuracy, %, b=1", "25.00 / 50.00"),
            ("final average accuracy, %, b=2", "75.00 ± 50.00 / -"),
        ]
    );
    let note =
        "Cells with b=2 differ from the files of the published numbers as they stand: --set z=1";
    assert_eq!(read.notes, [note]);
}
