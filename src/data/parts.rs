//! A data set put together from parts as files have them: samples, labels, whose they are.

use std::path::PathBuf;
use std::sync::Arc;

use super::labels::{Labels, number};
use super::store::Store;
use super::{DataError, Dataset, Split, TestShare};

/// One part of a data set.
#[derive(Debug)]
pub(super) struct Part {
    /// For errors.
    pub place: PathBuf,
    pub samples: Store,
    pub labels: Labels,
    /// Whose each sample is.
    pub owners: Option<Labels>,
}

/// The parts of a data set.
#[derive(Debug)]
pub(super) struct Parts {
    /// For people.
    pub name: String,
    /// Classes by number, where a file names them.
    pub class_names: Option<Vec<String>>,
    pub train: Part,
    /// `None` where nobody has divided the samples.
    pub test: Option<Part>,
    pub notes: Vec<String>,
}

impl Parts {
    /// Numbers the classes and owners. Where there is no test part, `share` draws one.
    ///
    /// # Errors
    /// Labels that do not fit together; no test part and no share, or both.
    pub fn into_dataset(self, share: Option<TestShare>) -> Result<Dataset, DataError> {
        let Parts { name, class_names, train, test, notes } = self;
        match (&test, share) {
            (None, None) => {
                return Err(DataError::Missing {
                    path: train.place,
                    expected: "a part to test on beside it".to_owned(),
                    advice: "Add it, or draw a part to test on: data.test_share = 0.2".to_owned(),
                });
            }
            (Some(test), Some(_)) => {
                return Err(DataError::unfit(
                    format!(
                        "{} is tested, and data.test_share would draw another part",
                        test.place.display()
                    ),
                    "remove data.test_share, or name one file in data.path",
                ));
            }
            _ => {}
        }
        let labels = test.as_ref().map(|test| (&test.labels, test.place.as_path()));
        let numbered = number((&train.labels, &train.place), labels, class_names)?;
        let classes = numbered.names.len();
        let owners = train.owners.map(|owners| owners.ranked().1);
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
            // Refused above.
            _ => (Arc::clone(&whole), whole),
        };
        Ok(Dataset { name, class_names: numbered.names, train, test, notes })
    }
}
