//! Labels or owners of several files, matched by name or by value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::spelling::{Spelling, Whole};
use super::{LabelValue, Labels};
use crate::data::column_rules::twice;
use crate::data::{Cause, DataError};

/// Labels or owners of one file.
#[derive(Clone, Copy, Debug)]
pub(in crate::data) struct FileLabels<'a> {
    pub place: &'a Path,
    pub labels: &'a Labels,
}

/// Sorted names of all labels of several files, and the label of each row.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::data) struct JoinedLabels {
    pub names: Vec<String>,
    /// Label of each row as an index into `names`, one vector per file.
    pub rows: Vec<Vec<u32>>,
    /// True if files name their classes, so that a name may have no row.
    pub is_named: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Joins the labels of several files.
///
/// They are matched by name if a file names its classes, otherwise by value if all are numbers, and as words if not.
///
/// # Errors
/// Returns an error if numbers are not whole or exceed the names of their file, or if names do not fit together.
pub(in crate::data) fn join(files: &[FileLabels<'_>]) -> Result<JoinedLabels, DataError> {
    let named: Vec<_> = files.iter().filter(|file| file.labels.names.is_some()).collect();
    match named.first() {
        Some(first) => by_names(files, first),
        None => by_spelling(files),
    }
}

/// Class names of a file. A file without any takes those of another one if all others agree.
#[derive(Clone, Copy)]
struct LabelNames<'a> {
    place: &'a Path,
    list: &'a [String],
}

fn by_names(files: &[FileLabels<'_>], first: &FileLabels<'_>) -> Result<JoinedLabels, DataError> {
    let reference =
        LabelNames { place: first.place, list: first.labels.names.as_deref().unwrap_or(&[]) };
    let mut notes = Vec::new();
    let mut other: Option<&Path> = None;
    let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
    let mut names: Vec<String> = Vec::new();
    for file in files {
        let Some(list) = &file.labels.names else { continue };
        if let Some(name) = twice(list) {
            let found = format!("`{name}` twice");
            return Err(DataError::because(Cause::AlikeNames, file.place, "a name once", found));
        }
        if list.as_slice() != reference.list && other.is_none() {
            other = Some(file.place);
            notes.push(format!(
                "{} and {} number their classes differently: samples are matched by the names of classes",
                reference.place.display(),
                file.place.display()
            ));
        }
        for name in list {
            let next = names.len() as u32;
            if *ids.entry(name).or_insert(next) == next {
                names.push(name.clone());
            }
        }
    }
    let mut rows = Vec::new();
    for file in files {
        let own = match &file.labels.names {
            Some(list) => LabelNames { place: file.place, list },
            None => {
                let has_numbers = file.labels.values.iter().any(|value| value.index.is_some());
                if let Some(other) = other.filter(|_| has_numbers) {
                    return Err(DataError::advised(
                        file.place,
                        "names of its classes",
                        format!(
                            "numbers only, which {} and {} understand differently",
                            reference.place.display(),
                            other.display()
                        ),
                        "Write its labels as texts, the names of the classes",
                    ));
                }
                if has_numbers {
                    notes.push(format!(
                        "{} does not name its classes: its labels are read as those of {}",
                        file.place.display(),
                        reference.place.display()
                    ));
                }
                reference
            }
        };
        let id =
            |value: &LabelValue| named(value, file.place, &own).map(|name| ids.get(name).copied());
        let mut of_values = Vec::new();
        for value in &file.labels.values {
            of_values.push(id(value)?.ok_or_else(|| {
                let found = format!("`{}` of sample {}", value.text, value.first);
                let expected = format!("labels among the names of {}", reference.place.display());
                DataError::because(Cause::UnknownLabel, file.place, expected, found)
            })?);
        }
        rows.push(file.labels.rows.iter().map(|value| of_values[*value as usize]).collect());
    }
    Ok(JoinedLabels { names, rows, is_named: true, notes })
}

/// Returns the name of a value: the text itself, or the name that a number indexes.
fn named<'a>(
    value: &'a LabelValue,
    place: &Path,
    names: &LabelNames<'a>,
) -> Result<&'a str, DataError> {
    let Some(index) = value.index else { return Ok(&value.text) };
    let name = usize::try_from(index).ok().and_then(|index| names.list.get(index));
    name.map(String::as_str).ok_or_else(|| {
        let expected = match names.place == place {
            true => format!("labels from 0 to {}", names.list.len().saturating_sub(1)),
            false => format!(
                "labels from 0 to {}, as {} names classes",
                names.list.len().saturating_sub(1),
                names.place.display()
            ),
        };
        let found = format!("label {index} of sample {}", value.first);
        let cause = if index < 0 { Cause::Unlabeled } else { Cause::UnknownLabel };
        DataError::because(cause, place, expected, found)
    })
}

fn by_spelling(files: &[FileLabels<'_>]) -> Result<JoinedLabels, DataError> {
    let values =
        files.iter().flat_map(|file| file.labels.values.iter().map(move |value| (file, value)));
    let spelled: Vec<(Spelling, &FileLabels<'_>, &LabelValue)> =
        values.map(|(file, value)| (Spelling::of(&value.text), file, value)).collect();
    let word = spelled.iter().find(|(spelling, ..)| *spelling == Spelling::Word);
    if let Some((_, file, word)) = word {
        let words: Vec<&str> = spelled.iter().map(|(.., value)| value.text.as_str()).collect();
        let numbers = spelled.iter().any(|(spelling, ..)| *spelling != Spelling::Word);
        let note = format!(
            "{}: `{}` is no number, so that all labels are words and in the order of letters",
            file.place.display(),
            word.text
        );
        return Ok(ranked(files, &words, numbers.then_some(note)));
    }
    let fraction = spelled.iter().find(|(spelling, ..)| *spelling == Spelling::Fraction);
    if let Some((_, file, value)) = fraction {
        return Err(DataError::advised(
            file.place,
            "whole numbers or words as labels and owners",
            format!("{} in row {}", value.text, value.first),
            "Is it the right column (data.label, data.client)? A target that is measured has no classes; write one of a few values as a word",
        ));
    }
    let mut known: BTreeMap<&Whole, (usize, &LabelValue)> = BTreeMap::new();
    for (spelling, file, value) in &spelled {
        let Spelling::Whole(whole, padding) = spelling else { continue };
        let (zeros, other) = *known.entry(whole).or_insert((*padding, value));
        if zeros != *padding {
            return Err(DataError::advised(
                file.place,
                "one spelling of every number with leading zeros",
                format!("`{}` and `{}`", other.text, value.text),
                "Write it in one way, or begin both with a letter where they are different names",
            ));
        }
    }
    let keys = spelled.iter().filter_map(|(spelling, ..)| match spelling {
        Spelling::Whole(whole, _) => Some(whole),
        // Fractions were refused, and words handled, before.
        Spelling::Fraction | Spelling::Word => None,
    });
    Ok(ranked(files, &keys.collect::<Vec<_>>(), None))
}

/// Numbers the labels in the order of `keys`, one key per value, concatenated over the files.
fn ranked<K: Ord + std::fmt::Display>(
    files: &[FileLabels<'_>],
    keys: &[K],
    note: Option<String>,
) -> JoinedLabels {
    let all: BTreeSet<&K> = keys.iter().collect();
    let ranks: BTreeMap<&K, u32> = all.iter().copied().zip(0..).collect();
    let mut rest = keys.iter();
    let rows = files.iter().map(|file| {
        let own = rest.by_ref().take(file.labels.values.len());
        let of_values: Vec<u32> = own.map(|key| ranks[key]).collect();
        file.labels.rows.iter().map(|value| of_values[*value as usize]).collect()
    });
    let rows = rows.collect();
    let names = all.iter().map(|key| key.to_string()).collect();
    JoinedLabels { names, rows, is_named: false, notes: note.into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::super::{LabelReader, RowPlace};
    use super::*;

    fn texts(cells: &[&str]) -> Labels {
        let mut reader = LabelReader::new(Path::new("t"), "y");
        cells.iter().for_each(|cell| reader.push_text(cell, || RowPlace::Row(0)).unwrap());
        reader.finish()
    }

    fn indices(numbers: &[i64], names: &[&str]) -> Labels {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Labels::of_numbers(numbers.iter().copied()).with_names(Some(names))
    }

    fn joined(files: &[(&str, &Labels)]) -> Result<JoinedLabels, String> {
        let files: Vec<_> = files
            .iter()
            .map(|(place, labels)| FileLabels { place: Path::new(place), labels })
            .collect();
        join(&files).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_of_any_spelling_are_joined_by_value() {
        let train = texts(&["10.0", "9.0", "2e0", "-1"]);
        let test = Labels::of_numbers([9, 10, 2, -1]);
        let made = joined(&[("train", &train), ("test", &test)]).unwrap();
        assert_eq!(made.names, ["-1", "2", "9", "10"]);
        assert_eq!(made.rows, [[3, 2, 1, 0], [2, 3, 1, 0]]);
        let large = texts(&["18446744073709551615", "9", "18446744073709551614"]);
        assert_eq!(joined(&[("a", &large)]).unwrap().rows, [[2, 0, 1]]);
    }

    #[test]
    fn one_word_makes_words_of_all_files_and_is_said() {
        let (train, test) = (texts(&["10", "9", "cat"]), Labels::of_numbers([9, 10]));
        let made = joined(&[("train", &train), ("test", &test)]).unwrap();
        assert_eq!(made.names, ["10", "9", "cat"]);
        assert_eq!(made.rows, [vec![0, 1, 2], vec![1, 0]]);
        assert!(made.notes[0].contains("train: `cat` is no number"), "{:?}", made.notes);
        assert_eq!(joined(&[("t", &texts(&["emu", "Dog"]))]).unwrap().notes, [""; 0]);
    }

    #[test]
    fn numbers_that_are_not_whole_or_written_in_two_ways_are_refused() {
        let error = joined(&[("a", &texts(&["1", "2"])), ("b", &texts(&["1", "0.5"]))]);
        let error = error.unwrap_err();
        assert!(
            error.contains("b: expected whole numbers") && error.contains("0.5 in row 1"),
            "{error}"
        );
        let error = joined(&[("a", &texts(&["007", "8"])), ("b", &texts(&["7"]))]).unwrap_err();
        assert!(error.contains("found `007` and `7`"), "{error}");
        assert_eq!(joined(&[("a", &texts(&["07", "10", "07"]))]).unwrap().rows, [[0, 1, 0]]);
    }

    #[test]
    fn numbers_are_indices_into_the_names_of_their_own_file() {
        let (one, other) =
            (indices(&[0, 1, 1], &["emu", "cat"]), indices(&[0, 1], &["cat", "emu"]));
        let made = joined(&[("one", &one), ("other", &other)]).unwrap();
        assert_eq!(
            (made.names, made.rows),
            (vec!["emu".into(), "cat".into()], vec![vec![0, 1, 1], vec![1, 0]])
        );
        assert!(
            made.notes[0].contains("one and other number their classes differently"),
            "{:?}",
            made.notes
        );
        // A file without names: numbers as the only others understand them, words as they are.
        let plain = Labels::of_numbers([1, 0]);
        let made = joined(&[("one", &one), ("plain", &plain)]).unwrap();
        assert_eq!(made.rows[1], [1, 0]);
        assert!(made.notes[0].contains("plain does not name its classes"), "{:?}", made.notes);
        assert_eq!(joined(&[("one", &one), ("words", &texts(&["cat"]))]).unwrap().rows[1], [1]);
        let error = joined(&[("one", &one), ("other", &other), ("plain", &plain)]).unwrap_err();
        assert!(error.contains("plain: expected names of its classes"), "{error}");
        // Names that are digits in another order: an index is an index, a text is a name.
        let digits = indices(&[0, 1], &["1", "0"]);
        let made = joined(&[("digits", &digits), ("texts", &texts(&["0"]))]).unwrap();
        assert_eq!(
            (made.names, made.rows),
            (vec!["1".into(), "0".into()], vec![vec![0, 1], vec![1]])
        );
    }

    #[test]
    fn numbers_beyond_the_names_and_names_that_clash_are_refused() {
        let error = |labels: Labels| joined(&[("f", &labels)]).unwrap_err();
        let beyond = error(indices(&[0, 0, 2], &["a", "b"]));
        assert!(
            beyond.contains("f: expected labels from 0 to 1, found label 2 of sample 2"),
            "{beyond}"
        );
        let unknown = error(indices(&[0, -1], &["a", "b"]));
        assert!(
            unknown.contains("label -1 of sample 1")
                && unknown.contains("These labels are unknown"),
            "{unknown}"
        );
        assert!(error(indices(&[0], &["a", "a"])).contains("found `a` twice"));
        let (one, word) = (indices(&[0], &["a"]), texts(&["z"]));
        let error = joined(&[("one", &one), ("word", &word)]).unwrap_err();
        assert!(
            error.contains("word: expected labels among the names of one, found `z`"),
            "{error}"
        );
    }
}
