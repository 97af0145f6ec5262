//! Errors of data: the file, what was expected, what was found, and advice.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::foreign::foreign;
use crate::exit::{CommandError, Exit};
use crate::fetch::FetchError;
use crate::quantity::TaskId;

/// Data that is missing, damaged or cannot be divided as asked (exit code 6).
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file or folder is not where it should be.
    #[error("{}: not found; expected {expected}. {advice}", path.display())]
    Missing {
        /// Path at which it was expected.
        path: PathBuf,
        /// Expected content.
        expected: String,
        /// Advice.
        advice: String,
    },
    /// Named data that were not fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The operating system could not read a file.
    #[error("{}: cannot be read: {source}. {advice}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
        /// Advice.
        advice: String,
    },
    /// A file is there but its content is not what its format says.
    #[error("{}: expected {expected}, found {}. {advice}", path.display(), shortened(found))]
    Corrupt {
        /// The file (for an archive: archive/member).
        path: PathBuf,
        /// Content that the format requires.
        expected: String,
        /// Content that was found.
        found: String,
        /// Advice.
        advice: String,
    },
    /// A request that this data set cannot meet.
    #[error("{}; {advice}", shortened(what))]
    Unfit {
        /// Mismatch.
        what: String,
        /// Advice.
        advice: String,
        /// Key of the scenario that it is about, if it is about one.
        key: Option<&'static str>,
    },
    /// No acceptable partition was drawn.
    #[error(
        "{task} has {samples} samples for {clients} clients, and no partition gives each of them at least {minimum}: after {attempts} attempts the best one leaves a client with {smallest}. {advice}"
    )]
    Infeasible {
        /// The task that could not be divided.
        task: TaskId,
        /// Training samples of it.
        samples: usize,
        /// Clients that share the task.
        clients: u32,
        /// The smallest shard that would have been accepted.
        minimum: u32,
        /// Partitions drawn.
        attempts: u32,
        /// The smallest shard of the best partition drawn.
        smallest: u32,
        /// Advice.
        advice: String,
    },
    /// A batch could not be put on the device.
    #[error("a batch could not be moved to the device: {0}")]
    Device(#[from] candle_core::Error),
}

/// Number of characters of a found text that are shown: names in foreign files may have any length.
const SHOWN: usize = 1_000;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Cause of unusable content, which determines the advice: fetching again helps only if bytes were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Bytes that were lost or changed in transfer.
    Damaged,
    /// Intact file whose content this source does not read.
    OtherContent,
    /// A class without samples in one of the parts.
    ClassWithoutSamples,
    /// Labels that stand for an unknown class, such as -1 in test parts on the Hugging Face hub.
    Unlabeled,
    /// A label that is none of the classes.
    UnknownLabel,
    /// Two class names that people may confuse.
    AlikeNames,
    /// Content that is there more than once, under several names or in several folders.
    Twice,
    /// Set of files of which some are missing.
    Incomplete,
}

impl Cause {
    /// Returns the advice for the user.
    fn advice(self) -> &'static str {
        match self {
            Cause::Damaged => "Fetch or unpack the data set again",
            Cause::OtherContent => {
                "The file is intact: check data.path and data.source, or write it in the expected form"
            }
            Cause::ClassWithoutSamples => {
                "Add samples of the class, take it out of the other part, or draw a part to test on from all samples \
                 (data.test_fraction = 0.2)"
            }
            Cause::Unlabeled => {
                "These labels are unknown, so nothing can be measured with them: use a part that has labels, or draw \
                 one from the training samples (data.test_fraction = 0.2)"
            }
            Cause::UnknownLabel => "Correct the label, or add the class to the training part",
            Cause::AlikeNames => {
                "Rename one of them, or put the samples of one class under one name"
            }
            Cause::Twice => "Remove one of them",
            Cause::Incomplete => "Fetch the others, too",
        }
    }
}

/// Returns advice for a file that the system, or a reader of text, refuses.
fn advice_for(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidData => "Save it as UTF-8 text, or name another file",
        ErrorKind::FileTooLarge => "Check that it is the intended file, or split it",
        _ => "Check its permissions and that it is a regular file or folder",
    }
}

impl DataError {
    /// Returns the error for a failed operation on `path`; a file that is not there becomes `Missing`.
    pub(crate) fn io(path: &Path, expected: &str, source: std::io::Error) -> DataError {
        match source.kind() {
            ErrorKind::NotFound => DataError::Missing {
                path: path.to_owned(),
                expected: expected.to_owned(),
                advice: "Check the data path of the scenario (relative paths start at the scenario file)"
                    .to_owned(),
            },
            kind => DataError::Unreadable {
                path: path.to_owned(),
                source,
                advice: advice_for(kind).to_owned(),
            },
        }
    }

    /// Returns the error for a damaged file that should be fetched again. A file that stands in for it, such as a Git
    /// LFS pointer, gets an error with its own advice.
    pub(crate) fn corrupt(
        path: &Path,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> DataError {
        // An empty file is damaged in any format, so its head says nothing.
        let holds_something = std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0);
        let stand_in = holds_something.then(|| foreign(path)).flatten();
        stand_in.unwrap_or_else(|| DataError::because(Cause::Damaged, path, expected, found))
    }

    /// Returns the error for a file whose content does not fit for this cause, which chooses the advice.
    pub(crate) fn because(
        cause: Cause,
        path: &Path,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> DataError {
        DataError::advised(path, expected, found, cause.advice())
    }

    /// Returns the error for a file whose content does not fit, with the given advice.
    pub(crate) fn advised(
        path: &Path,
        expected: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> DataError {
        DataError::Corrupt {
            path: path.to_owned(),
            expected: expected.into(),
            found: found.into(),
            advice: advice.into(),
        }
    }

    pub(crate) fn unfit(what: impl Into<String>, advice: impl Into<String>) -> DataError {
        DataError::Unfit { what: what.into(), advice: advice.into(), key: None }
    }

    /// Returns the error for a request that a key of the scenario makes.
    pub(crate) fn unfit_at(
        key: &'static str,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) -> DataError {
        DataError::Unfit { what: what.into(), advice: advice.into(), key: Some(key) }
    }

    /// Returns the scenario key that the error is about, if there is one, with message and advice.
    pub fn at_key(&self) -> Option<(&'static str, String, &str)> {
        match self {
            DataError::Unfit { what, advice, key: Some(key) } => {
                Some((key, shortened(what), advice))
            }
            DataError::Infeasible { advice, .. } => {
                let text = self.to_string();
                let message = text.strip_suffix(advice.as_str()).unwrap_or(&text);
                Some(("partition", message.trim_end_matches([' ', '.']).to_owned(), advice))
            }
            _ => None,
        }
    }
}

impl CommandError for DataError {
    fn exit_code(&self) -> Exit {
        match self {
            // Intact data that cannot meet a request point to a mistake in the scenario.
            DataError::Infeasible { .. } | DataError::Unfit { .. } => Exit::Scenario,
            _ => Exit::Inputs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_damaged_files_are_to_be_fetched_again() {
        use Cause::*;
        let message = |cause| DataError::because(cause, Path::new("a"), "b", "c").to_string();
        assert_eq!(message(Damaged), "a: expected b, found c. Fetch or unpack the data set again");
        assert_eq!(message(Incomplete), "a: expected b, found c. Fetch the others, too");
        for cause in [OtherContent, ClassWithoutSamples, Unlabeled, UnknownLabel, AlikeNames, Twice]
        {
            assert!(!message(cause).contains("Fetch"), "{}", message(cause));
        }
    }

    /// Found by a net: a user of LEAF's files whose name has thousands of letters.
    #[test]
    fn values_in_errors_are_truncated() {
        let messages = |letters: usize| {
            let user = "é".repeat(letters);
            let corrupt = DataError::corrupt(Path::new("all.json"), "users", user.as_str());
            [corrupt.to_string(), DataError::unfit(user, "rename it").to_string()]
        };
        let [corrupt, unfit] = messages(5_000);
        assert!(corrupt.contains(&format!("found {}.... Fetch", "é".repeat(1_000))), "{corrupt}");
        assert_eq!(unfit, format!("{}...; rename it", "é".repeat(1_000)));
        assert!(messages(1_000).iter().all(|message| !message.contains("...")));
    }
}
