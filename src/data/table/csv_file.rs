//! Rows of a CSV file with a header. Labels and owners are columns given by name; all others form the row.

use std::io::{BufReader, Read, Seek, SeekFrom};
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
        let found = match error.kind() {
            csv::ErrorKind::UnequalLengths { pos: Some(position), expected_len, len } => {
                let number = line_number(path, position);
                format!("{len} cells in line {number}, where the header has {expected_len}")
            }
            _ => error.to_string(),
        };
        let expected = "a CSV file with a header and as many cells in every line";
        DataError::advised(path, expected, found, "Correct the file")
    };
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(BufReader::new(file));
    let columns: Vec<String> =
        reader.headers().map_err(broken)?.iter().map(str::to_owned).collect();
    let header = Header::read(path, &columns, names, which)?;
    let mut values = Vec::new();
    let mut labels = LabelReader::new(path, &columns[header.label]);
    let mut owners = header.client.map(|at| (at, LabelReader::new(path, &columns[at])));
    let mut line = csv::StringRecord::new();
    while reader.read_record(&mut line).map_err(broken)? {
        let number = || line.position().map_or(0, |position| line_number(path, position));
        let place = || RowPlace::Line(number());
        for at in &header.of_row {
            values.push(value(&line[*at]).ok_or_else(|| {
                DataError::advised(
                    Path::new(&format!("{}:{}", path.display(), number())),
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

/// Returns the number of the line in which a record begins, for messages.
///
/// The reader counts from the end of the record before, so empty lines and the second character of CRLF come first.
fn line_number(path: &Path, position: &csv::Position) -> u64 {
    let skipped = || -> std::io::Result<u64> {
        let mut file = files::open(path, FileKind::Data)?;
        file.seek(SeekFrom::Start(position.byte()))?;
        let bytes = BufReader::new(file).bytes();
        let ends = bytes.map_while(Result::ok).take_while(|byte| matches!(byte, b'\r' | b'\n'));
        Ok(ends.filter(|byte| *byte == b'\n').count() as u64)
    };
    position.line() + skipped().unwrap_or(0)
}

/// Returns a number of a row, if it is finite.
fn value(cell: &str) -> Option<f32> {
    cell.parse().ok().filter(|value: &f32| value.is_finite())
}
