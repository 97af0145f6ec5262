//! Promise: accuracies by stage in the studies of papers are those of `stages.csv`, a copy of the papers' tables.

use super::super::expected::decimals;
use super::numbers::study_of;
use super::{Changes, STUDIES, change};

#[test]
fn accuracies_by_stage_are_those_of_the_copy() {
    let mut reader = csv::Reader::from_reader(include_str!("../stages.csv").as_bytes());
    let mut of: Vec<(String, Changes, Vec<f64>)> = Vec::new();
    for row in reader.deserialize::<(String, String, String, String)>() {
        let (table, file, changes, stages) = row.expect("a row");
        let changes: Changes = changes.split_whitespace().map(change).collect();
        let stages = decimals(&stages);
        let study = STUDIES.iter().find(|paper| paper.name == study_of(&table, &file)).expect("it");
        let cell = study.cells.iter().find(|cell| cell.is_about(&file, &changes)).expect("a cell");
        assert_eq!(cell.stages(), stages, "{} {:?}", study.name, cell.arms);
        // An average is the mean of the stages, or its cell notes the mean.
        let mean = format!("{:.2}", stages.iter().sum::<f64>() / stages.len() as f64);
        let printed = format!("{:.2}", cell.numbers()["average_from_second_stage_micro"]);
        let note = cell.expected.as_ref().and_then(|own| own.get("note")?.as_str());
        assert!(mean == printed || note.is_some_and(|note| note.ends_with(&mean)), "{mean}");
        of.push((file, changes, stages));
    }
    assert_eq!(of.len(), 7);
    for cell in
        STUDIES.iter().flat_map(|paper| &paper.cells).filter(|cell| !cell.stages().is_empty())
    {
        let known = of.iter().any(|(file, changes, stages)| {
            cell.is_about(file, changes) && cell.stages() == *stages
        });
        assert!(known, "{} {:?} has stages of no table", cell.file, cell.arms);
    }
}
