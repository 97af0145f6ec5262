//! `rounds.csv` of a study: the rounds of all runs.

use super::{point_cells, point_columns};
use crate::experiment::names;
use crate::report::column::CellType;
use crate::report::dictionary;
use crate::results::{ResultsError, Sheet, Table, TableCell};
use crate::study::Study;
use crate::study::collect::Outcomes;

pub(super) fn table(study: &Study, outcomes: &Outcomes) -> Result<Table, ResultsError> {
    let mut sheets = Vec::new();
    for outcome in &outcomes.all {
        let Some(run) = &outcome.run else { continue };
        if let Some(sheet) = run.sheet(names::ROUNDS)? {
            sheets.push((&outcome.cell, sheet));
        }
    }
    // Runs of one version have the same columns; columns that another version lacks are empty.
    let mut measured: Vec<String> = Vec::new();
    for column in sheets.iter().flat_map(|(_, sheet)| &sheet.columns) {
        if !measured.contains(column) {
            measured.push(column.clone());
        }
    }
    let mut columns = point_columns(study);
    columns.push(("seed".to_owned(), CellType::Int));
    for name in &measured {
        let kind = kind(sheets.iter().map(|(_, sheet)| sheet), name);
        // An axis may have the name of a column.
        let taken = columns.iter().any(|(other, _)| other == name);
        columns.push((if taken { format!("round_{name}") } else { name.clone() }, kind));
    }
    let kinds: Vec<CellType> =
        columns.iter().skip(columns.len() - measured.len()).map(|c| c.1).collect();
    let mut table = Table::new(columns);
    for (cell, sheet) in &sheets {
        let places: Vec<Option<usize>> = measured.iter().map(|name| sheet.column(name)).collect();
        for line in &sheet.rows {
            let mut row = point_cells(study, &cell.point);
            row.push(TableCell::Integer(i64::try_from(cell.replicate.label).unwrap_or(i64::MAX)));
            let entries = places.iter().zip(&kinds).map(|(place, kind)| match place {
                Some(place) => entry(&line[*place], *kind),
                None => TableCell::Empty,
            });
            row.extend(entries);
            table.push(row);
        }
    }
    Ok(table)
}

/// Returns the type of a column from the dictionary, even if all of its numbers are whole.
///
/// A column of another version holds numbers if every entry parses as a number.
fn kind<'a>(mut sheets: impl Iterator<Item = &'a Sheet>, name: &str) -> CellType {
    let file = dictionary::file(names::ROUNDS);
    let declared = file.iter().flat_map(|file| file.columns).find(|column| column.name == name);
    if let Some(column) = declared {
        return column.cells;
    }
    let numbers = sheets.all(|sheet| {
        let Some(place) = sheet.column(name) else { return true };
        sheet.rows.iter().all(|row| row[place].is_empty() || row[place].parse::<f64>().is_ok())
    });
    if numbers { CellType::Float } else { CellType::Text }
}

fn entry(text: &str, kind: CellType) -> TableCell {
    match kind {
        _ if text.is_empty() => TableCell::Empty,
        CellType::Text => text.into(),
        CellType::Int => text.parse().map_or(TableCell::Empty, TableCell::Integer),
        CellType::Float => text.parse().map_or(TableCell::Empty, TableCell::Number),
    }
}
