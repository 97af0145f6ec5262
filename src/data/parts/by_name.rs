//! Columns of several files, brought into the order of the first one by their names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Part, PartFile};
use crate::data::DataError;
use crate::data::store::Store;

/// Number of names that a message shows.
const SHOWN: usize = 8;

/// Columns of the first file of the training part that names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::data) struct Reference {
    pub place: PathBuf,
    pub columns: Vec<String>,
}

impl Reference {
    /// Returns the error for a file that has other columns.
    pub fn differs(&self, place: &Path, columns: &[String]) -> DataError {
        let without = |of: &[String], other: &[String]| {
            let names: Vec<&str> =
                of.iter().filter(|name| !other.contains(name)).map(String::as_str).collect();
            (!names.is_empty()).then(|| listed(&names, SHOWN))
        };
        let missing = without(&self.columns, columns).map(|names| format!("no column {names}"));
        let added = without(columns, &self.columns).map(|names| format!("in addition {names}"));
        let found: Vec<String> = [missing, added].into_iter().flatten().collect();
        DataError::advised(
            place,
            format!("the columns of {}", self.place.display()),
            found.join(", "),
            "Name columns alike in all files, and leave out those that are not in all of them",
        )
    }
}

/// Reorders the numbers of all rows as the training part's columns. Returns notes for the user.
///
/// # Errors
/// Returns an error if a file lacks a column or has another one.
pub(super) fn align(train: &mut Part, test: Option<&mut Part>) -> Result<Vec<String>, DataError> {
    let mut parts: Vec<&mut Part> = [Some(train), test].into_iter().flatten().collect();
    let first = parts.iter().flat_map(|part| &part.files).find_map(|file| {
        let columns = file.columns.clone()?;
        Some(Reference { place: file.place.clone(), columns })
    });
    let Some(reference) = first else { return Ok(Vec::new()) };
    let mut notes = vec![format!(
        "{}: a row is the columns {}",
        reference.place.display(),
        listed(&reference.columns.iter().map(String::as_str).collect::<Vec<_>>(), SHOWN)
    )];
    for part in &mut parts {
        let mut begin = 0;
        for file in &part.files {
            let rows = begin..begin + file.labels.len();
            begin = rows.end;
            let Some(columns) = &file.columns else {
                notes.push(format!(
                    "{}: its columns have no names and are taken in the order of {}",
                    file.place.display(),
                    reference.place.display()
                ));
                continue;
            };
            if *columns == reference.columns {
                continue;
            }
            let order = order(file, columns, &reference)?;
            if let Store::Rows { values, width } = &mut part.samples {
                for row in values[rows.start * *width..rows.end * *width].chunks_exact_mut(*width) {
                    let read = row.to_vec();
                    row.iter_mut().zip(&order).for_each(|(to, from)| *to = read[*from]);
                }
            }
        }
    }
    Ok(notes)
}

/// Returns the position in this file of every column of the reference.
fn order(
    file: &PartFile,
    columns: &[String],
    reference: &Reference,
) -> Result<Vec<usize>, DataError> {
    let places: BTreeMap<&str, usize> = columns.iter().map(String::as_str).zip(0..).collect();
    let found: Option<Vec<usize>> =
        reference.columns.iter().map(|name| places.get(name.as_str()).copied()).collect();
    match found {
        Some(order) if columns.len() == reference.columns.len() => Ok(order),
        _ => Err(reference.differs(&file.place, columns)),
    }
}

/// Returns the first names of a list, at most `most`, in backquotes.
pub(in crate::data) fn listed(names: &[&str], most: usize) -> String {
    let shown: Vec<String> = names.iter().take(most).map(|name| format!("`{name}`")).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::labels::Labels;

    fn file(place: &str, rows: usize, columns: Option<&[&str]>) -> PartFile {
        let columns = columns.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let labels = Labels::of_numbers(vec![0; rows]);
        PartFile { place: place.into(), labels, owners: None, columns }
    }

    fn part(files: Vec<PartFile>, values: &[f32]) -> Part {
        Part { files, samples: Store::Rows { values: values.to_vec(), width: 3 } }
    }

    fn values(part: &Part) -> &[f32] {
        let Store::Rows { values, .. } = &part.samples else { panic!("rows") };
        values
    }

    #[test]
    fn rows_of_every_file_come_into_the_order_of_the_first() {
        let files =
            vec![file("one", 1, Some(&["a", "b", "c"])), file("two", 2, Some(&["c", "a", "b"]))];
        let mut train = part(files, &[1.0, 2.0, 3.0, 30.0, 10.0, 20.0, 31.0, 11.0, 21.0]);
        let mut test = part(vec![file("test", 1, Some(&["b", "a", "c"]))], &[5.0, 4.0, 6.0]);
        let notes = align(&mut train, Some(&mut test)).unwrap();
        assert_eq!(values(&train), [1.0, 2.0, 3.0, 10.0, 20.0, 30.0, 11.0, 21.0, 31.0]);
        assert_eq!(values(&test), [4.0, 5.0, 6.0]);
        assert_eq!(notes, ["one: a row is the columns `a`, `b`, `c`"]);
    }

    #[test]
    fn other_columns_are_refused_by_name() {
        let mut train = part(vec![file("train", 1, Some(&["a", "b", "c"]))], &[1.0, 2.0, 3.0]);
        let mut error = |columns: &[&str]| {
            let mut test = part(vec![file("test", 1, Some(columns))], &[1.0, 2.0, 3.0]);
            align(&mut train, Some(&mut test)).unwrap_err().to_string()
        };
        let other = error(&["a", "d", "c"]);
        assert!(
            other.starts_with(
                "test: expected the columns of train, found no column `b`, in addition `d`."
            ),
            "{other}"
        );
        assert!(!other.contains("Fetch"), "{other}");
        let capital = error(&["a", "B", "c"]);
        assert!(capital.contains("no column `b`, in addition `B`"), "{capital}");
    }

    #[test]
    fn columns_without_names_keep_their_places_and_that_is_said() {
        let mut train = part(vec![file("train", 1, Some(&["a", "b", "c"]))], &[1.0, 2.0, 3.0]);
        let mut test = part(vec![file("test", 1, None)], &[4.0, 5.0, 6.0]);
        let notes = align(&mut train, Some(&mut test)).unwrap();
        assert_eq!(values(&test), [4.0, 5.0, 6.0]);
        assert!(notes[1].contains("test: its columns have no names"), "{notes:?}");
        // Where no file has names, no note is needed.
        let (mut train, mut test) = (part(vec![file("a", 1, None)], &[1.0; 3]), test);
        assert_eq!(align(&mut train, Some(&mut test)).unwrap(), [""; 0]);
    }
}
