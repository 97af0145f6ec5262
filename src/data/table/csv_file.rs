//! Rows of a CSV file with a header. Labels and owners are columns given by name; all others form the row.

use std::path::Path;

use super::header::Header;
use super::{FileRows, PartRole, TableNames};
use crate::data::DataError;
use crate::data::labels::{LabelReader, RowPlace};
use crate::data::parts::Reference;
use crate::files::{self, FileKind};

pub(super) fn read(
    path: &Path,
    names: &TableNames,
    which: (PartRole, Option<&Reference>),
) -> Result<FileRows, DataError> {
    let file =
        files::open(path, FileKind::Data).map_err(|e| DataError::io(path, "a CSV file", e))?;
    let broken = |error: csv::Error| {
        DataError::advised(
            path,
            "a CSV file with a header and as many cells in every line",
            error.to_string(),
            "Correct the file",
        )
    };
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(std::io::BufReader::new(file));
    let columns: Vec<String> =
        reader.headers().map_err(broken)?.iter().map(str::to_owned).collect();
    let header = Header::read(path, &columns, names, which)?;
    let mut values = Vec::new();
    let mut labels = LabelReader::new(path, &columns[header.label]);
    let mut owners = header.client.map(|at| (at, LabelReader::new(path, &columns[at])));
    let mut line = csv::StringRecord::new();
    while reader.read_record(&mut line).map_err(broken)? {
        let number = line.position().map_or(0, csv::Position::line);
        let place = || RowPlace::Line(number);
        for at in &header.of_row {
            values.push(value(&line[*at]).ok_or_else(|| {
                DataError::advised(
                    Path::new(&format!("{}:{number}", path.display())),
                    "a finite number",
                    format!("`{}` in the column `{}`", &line[*at], columns[*at]),
                    "Correct the cell, name the column in data.client, or take it away",
                )
            })?);
        }
        labels.push_text(&line[header.label], place)?;
        if let Some((at, owners)) = &mut owners {
            owners.push_text(&line[*at], place)?;
        }
    }
    Ok(FileRows {
        values,
        labels: labels.finish(),
        owners: owners.map(|(_, owners)| owners.finish()),
        columns: Some(header.names(&columns)),
        notes: header.notes,
    })
}

/// Parses a number of a row; `None` if it is not a finite number.
fn value(cell: &str) -> Option<f32> {
    cell.parse().ok().filter(|value: &f32| value.is_finite())
}
