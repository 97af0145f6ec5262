//! Names of the classes of a data set, by class id, as the manifest keeps them and tables write them.

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::document::Document;

/// Names by class id; empty for runs of versions that did not record them.
///
/// ```
/// use fedcast::experiment::ClassNames;
/// let names = ClassNames::new(["cat", "1"].map(String::from).to_vec());
/// assert_eq!((names.of(0), names.of(1), names.of(2)), ("cat", "1", ""));
/// assert_eq!((names.label(0).as_str(), names.label(1).as_str()), ("0 (cat)", "1"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Document)]
#[serde(transparent)]
pub struct ClassNames(Vec<String>);

impl ClassNames {
    /// Returns the names from those in the order of class ids.
    pub fn new(names: Vec<String>) -> ClassNames {
        ClassNames(names)
    }

    /// Returns the names of a data set's classes.
    pub fn of_dataset(dataset: &Dataset) -> ClassNames {
        ClassNames(dataset.class_names.clone())
    }

    /// Returns true if no name is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name of a class; empty where it is not known.
    pub fn of(&self, class: u32) -> &str {
        self.0.get(class as usize).map_or("", String::as_str)
    }

    /// Returns the number of a class, with its name if that says more.
    pub fn label(&self, class: u32) -> String {
        match self.of(class) {
            name if name.is_empty() || name == class.to_string() => class.to_string(),
            name => format!("{class} ({name})"),
        }
    }
}
