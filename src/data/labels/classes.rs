//! Classes of a data set: the labels of its training part. The test part has no others, and may lack some.

use std::collections::BTreeMap;
use std::path::Path;

use super::joined::{FileLabels, JoinedLabels, join};
use crate::data::{Cause, DataError};

/// Class names of a data set, and the class of every sample of its parts.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::data) struct Numbered {
    pub names: Vec<String>,
    pub train: Vec<u32>,
    pub test: Option<Vec<u32>>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Numbers the labels of both parts, each in one or more files.
///
/// # Errors
/// Returns an error if there are no samples, a test label is no class, a class has no training samples, or two class
/// names differ only in capitalization.
pub(in crate::data) fn number(
    train: &[FileLabels<'_>],
    test: Option<&[FileLabels<'_>]>,
) -> Result<Numbered, DataError> {
    for part in [Some(train), test].into_iter().flatten() {
        if let Some(file) = part.first().filter(|_| part.iter().all(|f| f.labels.len() == 0)) {
            return Err(DataError::because(
                Cause::OtherContent,
                file.place,
                "at least one sample",
                "none",
            ));
        }
    }
    let all: Vec<FileLabels<'_>> = train.iter().chain(test.unwrap_or(&[])).copied().collect();
    let JoinedLabels { names, mut rows, is_named, notes } = join(&all)?;
    let test_rows = rows.split_off(train.len());
    if !is_named {
        check_test_labels((test.unwrap_or(&[]), &test_rows), (&names, &rows))?;
    }
    let place = train.first().map_or(Path::new(""), |file| file.place);
    check_distinct_names(place, &names)?;
    // A class without test samples merely has no accuracy; without training samples it is none.
    if let Some(class) = present(&rows, names.len()).iter().position(|there| !there) {
        let samples: usize = rows.iter().map(Vec::len).sum();
        let found = format!("{samples} samples, none of class `{}`", names[class]);
        let cause = Cause::ClassWithoutSamples;
        return Err(DataError::because(cause, place, "samples of every class", found));
    }
    Ok(Numbered { names, train: rows.concat(), test: test.map(|_| test_rows.concat()), notes })
}

fn present(rows: &[Vec<u32>], classes: usize) -> Vec<bool> {
    let mut there = vec![false; classes];
    rows.iter().flatten().for_each(|class| there[*class as usize] = true);
    there
}

/// Checks that every label of the test part occurs in the training part.
fn check_test_labels(
    (test, test_rows): (&[FileLabels<'_>], &[Vec<u32>]),
    (names, train_rows): (&[String], &[Vec<u32>]),
) -> Result<(), DataError> {
    let trained = present(train_rows, names.len());
    for (file, rows) in test.iter().zip(test_rows) {
        if let Some(row) = rows.iter().position(|class| !trained[*class as usize]) {
            let label = &names[rows[row] as usize];
            let (cause, found) = (Cause::UnknownLabel, format!("`{label}` of sample {row}"));
            let expected = "labels that the training part has, too";
            let cause = if label == "-1" { Cause::Unlabeled } else { cause };
            return Err(DataError::because(cause, file.place, expected, found));
        }
    }
    Ok(())
}

/// Checks that no two names differ only in capitalization.
fn check_distinct_names(place: &Path, names: &[String]) -> Result<(), DataError> {
    let mut small: BTreeMap<String, &String> = BTreeMap::new();
    for name in names {
        if let Some(other) = small.insert(name.to_lowercase(), name) {
            let expected = "names of classes that differ by more than capitals";
            let found = format!("`{other}` and `{name}`");
            return Err(DataError::because(Cause::AlikeNames, place, expected, found));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{LabelReader, Labels, RowPlace};
    use super::*;

    fn words(labels: &[&str]) -> Labels {
        let mut reader = LabelReader::new(Path::new("t"), "y");
        labels.iter().for_each(|label| reader.push_text(label, || RowPlace::Row(0)).unwrap());
        reader.finish()
    }

    fn numbers(labels: &[i64]) -> Labels {
        Labels::of_numbers(labels.iter().copied())
    }

    fn numbered(train: &Labels, test: Option<&Labels>) -> Result<Numbered, String> {
        let train = [FileLabels { place: Path::new("train"), labels: train }];
        let test = test.map(|labels| [FileLabels { place: Path::new("test"), labels }]);
        let test = test.as_ref().map(|test| test.as_slice());
        number(&train, test).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_are_ranked_by_value_and_words_by_bytes() {
        let made = numbered(&numbers(&[10, 9, 10, -1]), Some(&numbers(&[9, 10, -1]))).unwrap();
        assert_eq!(made.names, ["-1", "9", "10"]);
        assert_eq!((made.train, made.test), (vec![2, 1, 2, 0], Some(vec![1, 2, 0])));
        let made = numbered(&words(&["emu", "cat", "Dog"]), None).unwrap();
        assert_eq!(
            (made.names, made.train),
            (vec!["Dog".into(), "cat".into(), "emu".into()], vec![2, 1, 0])
        );
    }

    #[test]
    fn named_classes_are_indices_whatever_their_order() {
        let names = || Some(vec!["emu".to_owned(), "cat".to_owned()]);
        let train = numbers(&[1, 0, 1]).with_names(names());
        let made = numbered(&train, Some(&numbers(&[0, 1]).with_names(names()))).unwrap();
        assert_eq!(
            (made.names[1].as_str(), made.train, made.test),
            ("cat", vec![1, 0, 1], Some(vec![0, 1]))
        );
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_part() {
        let train = numbers(&[0, 1, 2]);
        let error = |test: &Labels| numbered(&train, Some(test)).unwrap_err();
        assert!(error(&numbers(&[0, 1, 3])).contains(
            "test: expected labels that the training part has, too, found `3` of sample 2"
        ));
        let made = numbered(&train, Some(&numbers(&[1, 0]))).unwrap();
        assert_eq!((made.names.len(), made.test), (3, Some(vec![1, 0])), "2 is not tested");
        let names = Some(["a", "b", "c", "d"].map(str::to_owned).to_vec());
        let named = train.clone().with_names(names);
        assert!(numbered(&named, None).unwrap_err().contains("none of class `d`"));
        let unknown = error(&numbers(&[-1, -1]));
        assert!(
            unknown.contains("`-1` of sample 0") && unknown.contains("These labels are unknown"),
            "{unknown}"
        );
        let error = numbered(&words(&["cat", "Cat"]), None).unwrap_err();
        assert!(error.contains("`Cat` and `cat`"), "{error}");
        assert!(numbered(&words(&[]), None).unwrap_err().contains("at least one sample"));
        assert!(
            numbered(&train, Some(&words(&[]))).unwrap_err().contains("test: expected at least")
        );
    }
}
