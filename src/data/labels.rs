//! Labels as files have them, numbers or words, become class ids.
//!
//! Class ids are the labels of the training part in ascending order (numbers by value, words byte by byte), unless the
//! file names its classes: then a label is an index into the names. Both parts must have samples of every class.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::DataError;

/// One label per sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    Numbers(Vec<i64>),
    Words(Vec<String>),
}

impl Labels {
    pub fn len(&self) -> usize {
        match self {
            Labels::Numbers(labels) => labels.len(),
            Labels::Words(labels) => labels.len(),
        }
    }

    /// Cells of a table: numbers where all of them are whole numbers.
    pub fn of_texts(cells: Vec<String>) -> Labels {
        let numbers: Option<Vec<i64>> = cells.iter().map(|cell| cell.parse().ok()).collect();
        numbers.map_or(Labels::Words(cells), Labels::Numbers)
    }

    /// The different labels as words in ascending order, and for every sample which of them it has.
    pub fn ranked(&self) -> (Vec<String>, Vec<u32>) {
        match self {
            Labels::Numbers(labels) => ranked(labels),
            Labels::Words(labels) => ranked(labels),
        }
    }

    /// The class of every sample among `names`, for which labels are words of them.
    fn among(&self, names: &[String], place: &Path) -> Result<Vec<u32>, DataError> {
        let ids: BTreeMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let (words, ranks) = self.ranked();
        let id = |word: &String| {
            ids.get(word.as_str()).copied().ok_or_else(|| {
                let sample = ranks.iter().position(|rank| words[*rank as usize] == *word);
                let found = format!("`{word}` of sample {}", sample.unwrap_or_default());
                DataError::corrupt(place, "labels that the training part has, too", found)
            })
        };
        let ids = words.iter().map(id).collect::<Result<Vec<u32>, _>>()?;
        Ok(ranks.into_iter().map(|rank| ids[rank as usize]).collect())
    }

    /// The class of every sample where labels are numbers of `names`.
    fn of_names(&self, names: &[String], place: &Path) -> Result<Vec<u32>, DataError> {
        let Labels::Numbers(labels) = self else { return self.among(names, place) };
        let id = |(sample, label): (usize, &i64)| {
            u32::try_from(*label).ok().filter(|id| (*id as usize) < names.len()).ok_or_else(|| {
                let found = format!("label {label} of sample {sample}");
                DataError::corrupt(place, format!("labels from 0 to {}", names.len() - 1), found)
            })
        };
        labels.iter().enumerate().map(id).collect()
    }
}

fn ranked<T: Ord + ToString>(labels: &[T]) -> (Vec<String>, Vec<u32>) {
    let all: BTreeSet<&T> = labels.iter().collect();
    let ranks: BTreeMap<&T, u32> = all.iter().copied().zip(0..).collect();
    (all.iter().map(|label| label.to_string()).collect(), labels.iter().map(|l| ranks[l]).collect())
}

/// The classes of a data set and the class of every sample of its parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    pub names: Vec<String>,
    pub train: Vec<u32>,
    pub test: Option<Vec<u32>>,
}

/// Numbers the labels of both parts; `names` are those of the file, where it has any.
///
/// # Errors
/// No samples, a label that is no class, a class without samples in one of the parts, two classes that differ in
/// capitals only.
pub(super) fn number(
    (train, train_place): (&Labels, &Path),
    test: Option<(&Labels, &Path)>,
    names: Option<Vec<String>>,
) -> Result<Numbered, DataError> {
    if train.len() == 0 {
        return Err(DataError::corrupt(train_place, "at least one sample", "none"));
    }
    let named = names.is_some();
    let (names, train_ids) = match names {
        Some(names) => {
            let ids = train.of_names(&names, train_place)?;
            (names, ids)
        }
        None => train.ranked(),
    };
    let mut small: BTreeMap<String, &String> = BTreeMap::new();
    for name in &names {
        if let Some(other) = small.insert(name.to_lowercase(), name) {
            let expected = "names of classes that differ by more than capitals";
            return Err(DataError::corrupt(
                train_place,
                expected,
                format!("`{other}` and `{name}`"),
            ));
        }
    }
    let test_ids = match test {
        Some((labels, place)) if named => Some((labels.of_names(&names, place)?, place)),
        Some((labels, place)) => Some((labels.among(&names, place)?, place)),
        None => None,
    };
    let tested = test_ids.iter().map(|(ids, place)| (ids, *place));
    for (ids, place) in [(&train_ids, train_place)].into_iter().chain(tested) {
        let mut there = vec![false; names.len()];
        ids.iter().for_each(|id| there[*id as usize] = true);
        if let Some(class) = there.iter().position(|there| !there) {
            let found = format!("{} samples, none of class `{}`", ids.len(), names[class]);
            return Err(DataError::corrupt(place, "samples of every class", found));
        }
    }
    Ok(Numbered { names, train: train_ids, test: test_ids.map(|(ids, _)| ids) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(labels: &[&str]) -> Labels {
        Labels::Words(labels.iter().map(|label| (*label).to_owned()).collect())
    }

    fn numbered(
        train: &Labels,
        test: Option<&Labels>,
        names: Option<&[&str]>,
    ) -> Result<Numbered, String> {
        let names = names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let test = test.map(|test| (test, Path::new("test")));
        number((train, Path::new("train")), test, names).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_are_ranked_by_value_and_words_by_bytes() {
        let train = Labels::Numbers(vec![10, 9, 10, -1]);
        let made = numbered(&train, Some(&Labels::Numbers(vec![9, 10, -1])), None).unwrap();
        assert_eq!(made.names, ["-1", "9", "10"]);
        assert_eq!((made.train, made.test), (vec![2, 1, 2, 0], Some(vec![1, 2, 0])));
        let made = numbered(&words(&["emu", "cat", "Dog"]), None, None).unwrap();
        assert_eq!(
            (made.names, made.train),
            (vec!["Dog".into(), "cat".into(), "emu".into()], vec![2, 1, 0])
        );
    }

    #[test]
    fn named_classes_are_indices_whatever_their_order() {
        let train = Labels::Numbers(vec![1, 0, 1]);
        let made =
            numbered(&train, Some(&Labels::Numbers(vec![0, 1])), Some(&["emu", "cat"])).unwrap();
        assert_eq!(
            (made.names[1].as_str(), made.train, made.test),
            ("cat", vec![1, 0, 1], Some(vec![0, 1]))
        );
        // Names that look like numbers in another order: an index is an index.
        let test = Labels::Numbers(vec![0, 1]);
        let made = numbered(&train, Some(&test), Some(&["1", "0"])).unwrap();
        assert_eq!((made.train, made.test), (vec![1, 0, 1], Some(vec![0, 1])));
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_part() {
        let train = Labels::Numbers(vec![0, 1, 2]);
        let error = |test: &Labels, names| numbered(&train, Some(test), names).unwrap_err();
        assert!(error(&Labels::Numbers(vec![0, 1, 3]), None).contains(
            "test: expected labels that the training part has, too, found `3` of sample 2"
        ));
        assert!(error(&Labels::Numbers(vec![0, 1]), None).contains("none of class `2`"));
        let named: &[&str] = &["a", "b"];
        assert!(
            error(&Labels::Numbers(vec![0]), Some(named))
                .contains("train: expected labels from 0 to 1, found label 2 of sample 2")
        );
        let error = numbered(&words(&["cat", "Cat"]), None, None).unwrap_err();
        assert!(error.contains("`Cat` and `cat`"), "{error}");
        assert!(numbered(&words(&[]), None, None).unwrap_err().contains("at least one sample"));
    }
}
