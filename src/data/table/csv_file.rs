//! Rows of a CSV file with a header: the columns of labels and owners by name, every other one is of the row.

use std::path::Path;

use super::{Rows, TableNames, wide};
use crate::data::DataError;
use crate::data::labels::Labels;
use crate::files::{self, Kind};

pub(super) fn read(path: &Path, names: &TableNames) -> Result<Rows, DataError> {
    let file = files::open(path, Kind::Data).map_err(|e| DataError::io(path, "a CSV file", e))?;
    let broken = |error: csv::Error| DataError::Corrupt {
        path: path.to_owned(),
        expected: "a CSV file with a header and as many cells in every line".to_owned(),
        found: error.to_string(),
        advice: "Correct the file".to_owned(),
    };
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(std::io::BufReader::new(file));
    let header = reader.headers().map_err(broken)?.clone();
    let column = |name: &str| {
        header.iter().position(|cell| cell == name).ok_or_else(|| DataError::Corrupt {
            path: path.to_owned(),
            expected: format!("a column `{name}`"),
            found: format!("the columns {}", shortened(&header)),
            advice: "Name the right one: data.label, data.client".to_owned(),
        })
    };
    let label = column(&names.label)?;
    let client = names.client.as_deref().map(column).transpose()?;
    let of_row: Vec<usize> =
        (0..header.len()).filter(|at| *at != label && Some(*at) != client).collect();
    if of_row.len() != names.width {
        return Err(wide(path, names, of_row.len()));
    }
    let (mut values, mut labels, mut owners) = (Vec::new(), Vec::new(), Vec::new());
    let mut line = csv::StringRecord::new();
    while reader.read_record(&mut line).map_err(broken)? {
        for at in &of_row {
            let cell = &line[*at];
            let value: f32 = cell.parse().map_err(|_| {
                let number = line.position().map_or(0, csv::Position::line);
                let found = format!("`{cell}` in the column `{}`", &header[*at]);
                DataError::Corrupt {
                    path: format!("{}:{number}", path.display()).into(),
                    expected: "a number".to_owned(),
                    found,
                    advice: "Correct the cell, name the column in data.client, or take it away"
                        .to_owned(),
                }
            })?;
            values.push(value);
        }
        labels.push(line[label].to_owned());
        owners.extend(client.map(|client| line[client].to_owned()));
    }
    let owners = client.map(|_| Labels::of_texts(owners));
    Ok(Rows { values, labels: Labels::of_texts(labels), owners })
}

/// The first columns of a header.
fn shortened(header: &csv::StringRecord) -> String {
    let mut names: Vec<&str> = header.iter().take(8).collect();
    if header.len() > names.len() {
        names.push("...");
    }
    names.join(", ")
}
