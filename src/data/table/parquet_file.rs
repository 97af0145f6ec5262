//! Rows of a Parquet file: a column of lists, or every column but those of labels and owners.

use std::path::Path;

use super::{Rows, TableNames, wide};
use crate::data::DataError;
use crate::data::columns::Table;

pub(super) fn read(path: &Path, names: &TableNames) -> Result<Rows, DataError> {
    let table = Table::open(path)?;
    let columns = table.names();
    let labels = table.labels(&names.label)?;
    let owners = names.client.as_deref().map(|client| table.labels(client)).transpose()?;
    let values = match columns.contains(&names.input) {
        true => {
            let column = table.numbers(&names.input)?;
            let other = column.counts.iter().find(|count| **count as usize != names.width);
            if let Some(other) = other {
                return Err(wide(path, names, *other as usize));
            }
            column.values
        }
        false => {
            let is_beside =
                |name: &String| *name == names.label || Some(name) == names.client.as_ref();
            let of_row: Vec<String> = columns.into_iter().filter(|name| !is_beside(name)).collect();
            if of_row.len() != names.width {
                return Err(wide(path, names, of_row.len()));
            }
            // Not by the count in the file's foot: that may say anything.
            let rows = labels.len();
            let mut values = vec![0.0; rows * names.width];
            for (place, name) in of_row.iter().enumerate() {
                let column = table.numbers(name)?;
                if column.values.len() != rows {
                    let expected = format!("a number a row in the column `{name}`");
                    return Err(DataError::corrupt(path, expected, "lists"));
                }
                for (row, value) in column.values.into_iter().enumerate() {
                    values[row * names.width + place] = value;
                }
            }
            values
        }
    };
    Ok(Rows { values, labels, owners })
}
