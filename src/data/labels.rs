//! Labels and owners as files have them, one cell per row, and their numbering over several files.
//!
//! One rule holds for every source. Cells without a value are errors ([`LabelReader`]). If all cells of all files are
//! numbers, they must be whole and are ordered by value, in any spelling (`2`, `2.0`, the text `2`); otherwise all are
//! words, ordered byte by byte. If a file names its classes, its numbers are indices into these names, and its samples
//! are matched by name with those of other files ([`join`](joined::join)).

mod classes;
mod joined;
mod spelling;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) use classes::number;
pub(super) use joined::{FileLabels, join};

use super::{DataError, normal_form};

/// One label or owner per row of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Labels {
    /// Distinct cells, in the order in which they appear.
    values: Vec<LabelValue>,
    /// Index into `values` of every row.
    rows: Vec<u32>,
    /// Names that the file gives to its numbers.
    names: Option<Vec<String>>,
}

/// A distinct cell.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelValue {
    text: String,
    /// Index into the file's class names: a number from a numeric column, but not a text of digits.
    index: Option<i64>,
    /// First row that has it.
    first: usize,
}

impl Labels {
    /// Returns the labels of a source that has only integers.
    pub fn of_numbers(numbers: impl IntoIterator<Item = i64>) -> Labels {
        let mut reader = LabelReader::new(Path::new(""), "");
        numbers.into_iter().for_each(|number| reader.push_whole(number));
        reader.finish()
    }

    /// Returns the labels with the file's class names; its numbers are indices into them.
    pub fn with_names(self, names: Option<Vec<String>>) -> Labels {
        let normal = |names: Vec<String>| names.iter().map(|name| normal_form(name)).collect();
        Labels { names: names.map(normal), ..self }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the label of every row as it was written.
    #[cfg(test)]
    pub fn texts(&self) -> Vec<&str> {
        self.rows.iter().map(|value| self.values[*value as usize].text.as_str()).collect()
    }
}

/// Place of a row in a file, for error messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RowPlace {
    /// A line of a text file, from 1.
    Line(u64),
    /// A row, from 0.
    Row(usize),
    /// Place in other words, such as `image 3 of user w1`.
    Named(String),
}

/// Reader of the cells of one column of labels or owners.
#[derive(Debug)]
pub(super) struct LabelReader {
    path: PathBuf,
    column: String,
    labels: Labels,
    known: BTreeMap<String, u32>,
    /// Index into `labels.values` of each integer, so that it is found again without its text.
    numbers: BTreeMap<i64, u32>,
}

/// 2^53: the largest integer up to which every integer has an exact `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl LabelReader {
    /// Returns a reader for the column `column` of a file.
    pub fn new(path: &Path, column: &str) -> LabelReader {
        let labels = Labels { values: Vec::new(), rows: Vec::new(), names: None };
        let (path, column) = (path.to_owned(), column.to_owned());
        LabelReader { path, column, labels, known: BTreeMap::new(), numbers: BTreeMap::new() }
    }

    /// Adds a text cell.
    ///
    /// # Errors
    /// Returns an error if the text stands for a missing value.
    pub fn push_text(&mut self, text: &str, row: impl Fn() -> RowPlace) -> Result<(), DataError> {
        let text = text.trim();
        if spelling::is_missing(text) {
            return Err(self.missing(text, &row()));
        }
        match text.is_ascii() {
            true => self.push(text, None),
            false => self.push(&normal_form(text), None),
        };
        Ok(())
    }

    /// Adds a number from a column of floats.
    ///
    /// # Errors
    /// Returns an error for NaN, which stands for a missing value.
    pub fn push_float(&mut self, value: f64, row: impl Fn() -> RowPlace) -> Result<(), DataError> {
        if value.is_nan() {
            return Err(self.missing("NaN", &row()));
        }
        match value.fract() == 0.0 && value.abs() < EXACT {
            true => self.push_whole(value as i64),
            false => _ = self.push(&value.to_string(), None),
        }
        Ok(())
    }

    /// Adds an integer.
    pub fn push_whole(&mut self, number: i64) {
        match self.numbers.get(&number) {
            Some(value) => self.labels.rows.push(*value),
            None => {
                let value = self.push(&number.to_string(), Some(number));
                self.numbers.insert(number, value);
            }
        }
    }

    /// Adds an unsigned integer. One beyond `i64::MAX` is kept by its digits, without an index.
    pub fn push_unsigned(&mut self, number: u64) {
        match i64::try_from(number) {
            Ok(number) => self.push_whole(number),
            Err(_) => _ = self.push(&number.to_string(), None),
        }
    }

    /// Adds a Boolean, written as in Python (`True`, `False`).
    pub fn push_truth(&mut self, truth: bool) {
        self.push(if truth { "True" } else { "False" }, None);
    }

    /// Adds a row with this cell, and returns the index of the cell.
    fn push(&mut self, text: &str, index: Option<i64>) -> u32 {
        let value = match self.known.get(text) {
            Some(value) => *value,
            None => {
                let (next, first) = (self.labels.values.len() as u32, self.labels.rows.len());
                self.labels.values.push(LabelValue { text: text.to_owned(), index, first });
                self.known.insert(text.to_owned(), next);
                next
            }
        };
        self.labels.rows.push(value);
        value
    }

    /// Returns the error for a row without a value; `cell` is the text found in its place.
    pub fn missing(&self, cell: &str, row: &RowPlace) -> DataError {
        let cell = if cell.is_empty() { "none".to_owned() } else { format!("`{cell}`") };
        let (path, found) = match row {
            RowPlace::Line(line) => {
                (PathBuf::from(format!("{}:{line}", self.path.display())), cell)
            }
            RowPlace::Row(row) => (self.path.clone(), format!("{cell} in row {row}")),
            RowPlace::Named(place) => (self.path.clone(), format!("{cell} in {place}")),
        };
        DataError::advised(
            &path,
            format!("a value of `{}` in every row", self.column),
            found,
            "Fill the cell or leave the row out; a name that reads like a missing value needs another one",
        )
    }

    /// Returns the labels that were read.
    pub fn finish(self) -> Labels {
        self.labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_are_refused_with_their_row() {
        let reader = || LabelReader::new(Path::new("t.csv"), "y");
        let refusal = |cell: &str, row: RowPlace| {
            reader().push_text(cell, || row.clone()).unwrap_err().to_string()
        };
        let empty = refusal("  ", RowPlace::Line(4));
        assert!(
            empty.starts_with("t.csv:4: expected a value of `y` in every row, found none. Fill"),
            "{empty}"
        );
        let nan = reader().push_float(f64::NAN, || RowPlace::Row(7)).unwrap_err().to_string();
        assert!(nan.contains("t.csv: expected") && nan.contains("found `NaN` in row 7"), "{nan}");
        let named = refusal("null", RowPlace::Named("image 3 of user `w`".into()));
        assert!(named.contains("found `null` in image 3 of user `w`"), "{named}");
    }

    #[test]
    fn both_forms_of_an_accent_are_one_label() {
        let mut reader = LabelReader::new(Path::new("t"), "y");
        for text in ["Caf\u{e9}", "Cafe\u{301}", "Cafe"] {
            reader.push_text(text, || RowPlace::Row(0)).unwrap();
        }
        assert_eq!(reader.finish().rows, [0, 0, 1]);
    }

    #[test]
    fn floats_texts_and_numbers_of_one_value_are_one() {
        let mut reader = LabelReader::new(Path::new("t"), "y");
        reader.push_float(2.0, || RowPlace::Row(0)).unwrap();
        reader.push_whole(2);
        reader.push_text(" 2 ", || RowPlace::Row(2)).unwrap();
        reader.push_float(0.5, || RowPlace::Row(3)).unwrap();
        let labels = reader.finish();
        assert_eq!(labels.rows, [0, 0, 0, 1]);
        assert_eq!(labels.values[1].text, "0.5");
    }
}
