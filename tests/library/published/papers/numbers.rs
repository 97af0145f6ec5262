//! Promise: every number of `expected.csv` and `points.csv` is in a cell of its table's study, with its deviation, and a
//! cell has no other number.

use std::sync::LazyLock;

use toml::Value;

use super::super::expected::{Copied, copied, points};
use super::{Cell, Changes, Paper, STUDIES, change, effective};

/// Numbers of one line of `expected.csv` or `points.csv`.
struct Line {
    table: String,
    file: String,
    changes: Changes,
    /// Metric, number and deviation.
    numbers: Vec<(String, f64, Option<f64>)>,
}

/// Metrics of a paper's points, in the order in which they are printed.
fn metrics(table: &str) -> &'static [&'static str] {
    match paper_of(table) {
        "hgp" => &["faa"],
        "stsa" => &["average_incremental_micro", "micro", "forgetting_from_best"],
        "hepco" => &["micro"],
        "fedhaf" => &["average_from_second_stage_micro", "forgetting_from_best_of_all"],
        _ => &["avg"],
    }
}

/// The folder of a paper by the name of one of its tables.
fn paper_of(table: &str) -> &'static str {
    let names = [
        ("2406.02447", "hgp"),
        ("2506.01327", "stsa"),
        ("HePCo", "hepco"),
        ("FedHAF", "fedhaf"),
        ("C2Prompt", "c2prompt"),
    ];
    let found = names.iter().find(|(name, _)| table.contains(name));
    found.unwrap_or_else(|| panic!("{table} is of no paper")).1
}

/// The study of a line of the copies.
pub(super) fn study_of(table: &str, file: &str) -> String {
    let paper = paper_of(table);
    let figure = ["3", "4"].iter().find(|n| file.starts_with(&format!("stsa/figure{n}-")));
    let item = match (figure, table.split(' ').next(), paper) {
        (Some(number), ..) => format!("figure-{number}"),
        (_, Some("Table"), _) => format!("table-{}", table.split(' ').nth(1).expect("a number")),
        (_, Some("supplement"), _) => "participation".to_owned(),
        (_, _, "hgp") => "table-3".to_owned(),
        (_, _, "hepco") => "table-a".to_owned(),
        _ => "ablation".to_owned(),
    };
    format!("{paper}/{item}")
}

/// All lines of both copies.
static LINES: LazyLock<Vec<Line>> = LazyLock::new(|| {
    // Accuracies by stage are compared in `stages`.
    let own = copied().into_iter().filter(|((_, metric), _)| !metric.contains('.'));
    let own = own.map(|((file, metric), printed)| Line {
        table: printed.table,
        file,
        changes: Changes::new(),
        numbers: vec![(metric, printed.value, printed.deviation)],
    });
    let points = points().into_iter().flat_map(|(file, points)| {
        points.into_iter().map(move |Copied { table, point, deviations }| {
            let names = metrics(&table).iter().map(|metric| (*metric).to_owned());
            let deviations = deviations.into_iter().map(Some).chain(std::iter::repeat(None));
            let numbers = names.zip(point.printed).zip(deviations);
            let numbers = numbers.map(|((name, value), spread)| (name, value, spread)).collect();
            let changes = point.changes.iter().map(|text| change(text)).collect();
            let changes = effective(&file, changes);
            Line { table, file: file.clone(), changes, numbers }
        })
    });
    own.chain(points).collect()
});

#[test]
fn every_published_number_is_in_its_table() {
    let mut wrong = Vec::new();
    for Line { table, file, changes, numbers } in LINES.iter() {
        let name = study_of(table, file);
        let Some(study) = STUDIES.iter().find(|paper| paper.name == name) else {
            wrong.push(format!("{table} has no study {name}"));
            continue;
        };
        let mut cells = study.cells.iter().filter(|cell| cell.is_about(file, changes));
        let has = |cell: &Cell| {
            let (own, stated) = (cell.numbers(), cell.deviations());
            numbers.iter().all(|(metric, value, deviation)| {
                let deviates = cell.expected.is_none() || stated.get(metric) == deviation.as_ref();
                own.get(metric) == Some(value) && deviates
            })
        };
        if !cells.any(has) {
            wrong.push(format!("{name} lacks {numbers:?} of {file} {changes:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} numbers are missing:\n{}", wrong.len(), wrong.join("\n"));
    assert!(LINES.len() >= 550, "{} lines", LINES.len());
}

#[test]
fn no_cell_has_a_number_that_was_not_published() {
    let keys = ["source", "note", "deviation", "accuracy_by_stage"];
    let mut wrong = Vec::new();
    for Paper { name, cells, .. } in STUDIES.iter() {
        for cell in cells {
            let Cell { arms, file, changes, expected } = cell;
            let lines = || LINES.iter().filter(|line| cell.is_about(&line.file, &line.changes));
            let Some(own) = expected else {
                // Numbers of a file are not those of the file with changes.
                if !changes.is_empty() && !cell.numbers().is_empty() {
                    wrong.push(format!("{name}: {arms:?} has the numbers of another cell"));
                }
                continue;
            };
            let is_printed = |metric: &str, value: f64, deviation: Option<f64>| {
                lines().any(|line| {
                    let source = own.get("source").and_then(Value::as_str);
                    let number = line.numbers.iter().any(|(name, number, spread)| {
                        let deviates = deviation.is_none() || *spread == deviation;
                        name == metric && *number == value && deviates
                    });
                    number && source.is_none_or(|source| source == line.table)
                })
            };
            let (numbers, deviations) = (cell.numbers(), cell.deviations());
            let known = |key: &String| keys.contains(&key.as_str()) || numbers.contains_key(key);
            let printed = numbers
                .iter()
                .all(|(metric, value)| is_printed(metric, *value, deviations.get(metric).copied()));
            let strays = deviations.keys().any(|metric| !numbers.contains_key(metric));
            if numbers.is_empty() || !printed || strays || !own.keys().all(known) {
                wrong.push(format!("{name}: {file} {changes:?} is not published with {own}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells are not as printed:\n{}", wrong.len(), wrong.join("\n"));
}
