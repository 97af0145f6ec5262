//! A data set assembled from parts as files have them: samples, labels and owners.
//!
//! All sources that read several files join them here: columns by their names ([`by_name`]), labels and owners by their
//! meaning in their own file ([`labels`](super::labels)).

mod by_name;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use by_name::{Reference, listed};

use super::labels::{FileLabels, Labels, join, number};
use super::store::Store;
use super::{DataError, Dataset, Split, TestFraction};

/// One part of a data set.
#[derive(Debug)]
pub(super) struct Part {
    /// Files of the part, in the order of their samples.
    pub files: Vec<PartFile>,
    /// Samples of all files, concatenated.
    pub samples: Store,
}

/// Content of one file of a part.
#[derive(Debug)]
pub(super) struct PartFile {
    /// Place, for errors.
    pub place: PathBuf,
    pub labels: Labels,
    /// Owner of each sample; not used in a test part.
    pub owners: Option<Labels>,
    /// Names of the numbers in a row, in file order; `None` if they are known by position only.
    pub columns: Option<Vec<String>>,
}

impl Part {
    /// Returns a part of one file whose samples have no owners.
    pub fn of_file(place: PathBuf, labels: Labels, samples: Store) -> Part {
        Part { files: vec![PartFile { place, labels, owners: None, columns: None }], samples }
    }

    fn place(&self) -> &Path {
        self.files.first().map_or(Path::new(""), |file| file.place.as_path())
    }

    fn labels(&self) -> Vec<FileLabels<'_>> {
        self.files
            .iter()
            .map(|file| FileLabels { place: &file.place, labels: &file.labels })
            .collect()
    }

    /// Returns the owner of every sample, if all files have owners.
    ///
    /// # Errors
    /// Returns an error if the owners of the files do not fit together.
    fn owners(&self) -> Result<Option<Vec<u32>>, DataError> {
        let owners: Option<Vec<FileLabels<'_>>> = self
            .files
            .iter()
            .map(|file| Some(FileLabels { place: &file.place, labels: file.owners.as_ref()? }))
            .collect();
        let Some(owners) = owners else { return Ok(None) };
        Ok(Some(ranks_of_those_there(join(&owners)?.rows.concat())))
    }
}

/// Returns the error for a training part without a test part; it names the file that would be one.
fn no_test_part(train: &Path) -> DataError {
    let ending = train.extension().map(|ending| format!(".{}", ending.to_string_lossy()));
    let test = train.with_file_name(format!("test{}", ending.as_deref().unwrap_or_default()));
    let stem = train.file_stem().unwrap_or_default().to_string_lossy();
    let folder = match stem.starts_with("train") {
        true => "Add it",
        false => "With it, name the other file train and let data.path name their folder",
    };
    DataError::Missing {
        path: test,
        expected: format!("a test part for {}", train.display()),
        advice: format!("{folder}, or draw a part to test on: data.test_fraction = 0.2"),
    }
}

/// Renumbers owners without gaps: files may name owners that have no samples.
fn ranks_of_those_there(owners: Vec<u32>) -> Vec<u32> {
    let mut there = owners.clone();
    there.sort_unstable();
    there.dedup();
    let rank = |owner: u32| there.binary_search(&owner).unwrap_or_default() as u32;
    owners.into_iter().map(rank).collect()
}

/// Parts of a data set.
#[derive(Debug)]
pub(super) struct DatasetParts {
    /// Name for the user.
    pub name: String,
    pub train: Part,
    /// Test part; `None` if the samples are not divided.
    pub test: Option<Part>,
    pub notes: Vec<String>,
}

impl DatasetParts {
    /// Brings the files together and numbers classes and owners. Where there is no test part, `share` draws one.
    ///
    /// # Errors
    /// Returns an error if columns, labels or owners do not fit together, or if there is neither a test part nor a
    /// share, or both.
    pub fn into_dataset(self, share: Option<TestFraction>) -> Result<Dataset, DataError> {
        let DatasetParts { name, mut train, mut test, mut notes } = self;
        match (&test, share) {
            (None, None) => {
                return Err(no_test_part(train.place()));
            }
            (Some(test), Some(_)) => {
                return Err(DataError::unfit(
                    format!(
                        "{} is tested, and data.test_fraction would draw another part",
                        test.place().display()
                    ),
                    "remove data.test_fraction, or name one file in data.path",
                ));
            }
            _ => {}
        }
        notes.extend(by_name::align(&mut train, test.as_mut())?);
        let tested = test.as_ref().map(Part::labels);
        let numbered = number(&train.labels(), tested.as_deref())?;
        notes.extend(numbered.notes);
        let classes = numbered.names.len();
        let owners = train.owners()?;
        let whole = Split::new(train.samples, numbered.train, classes)?;
        let whole = Arc::new(match owners {
            Some(owners) => whole.with_owners(owners),
            None => whole,
        });
        let (train, test) = match (test, numbered.test, share) {
            (Some(test), Some(labels), _) => {
                (whole, Arc::new(Split::new(test.samples, labels, classes)?))
            }
            (_, _, Some(share)) => {
                let (train, test) = share.divide(whole.by_class(), &numbered.names)?;
                (whole.part(train)?, whole.part(test)?)
            }
            // The other cases were refused above.
            _ => (Arc::clone(&whole), whole),
        };
        Ok(Dataset { name, class_names: numbered.names, train, test, notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_test_part_is_named_by_its_own_file() {
        let of = |train: &str| no_test_part(Path::new(train)).to_string();
        let named = of("tab/train.csv");
        assert!(named.starts_with("tab/test.csv: not found"), "{named}");
        assert!(named.contains("for tab/train.csv. Add it, or"), "{named}");
        let other = of("tab/data.csv");
        assert!(other.contains("name the other file train and let data.path name"), "{other}");
        assert!(other.contains("data.test_fraction = 0.2"), "{other}");
    }
}
