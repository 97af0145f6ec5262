//! Note about classes without test samples.

use super::Dataset;
use super::parts::listed;

/// Number of classes that the note names.
const NAMED: usize = 5;

impl Dataset {
    /// Adds a note about classes without test samples, if there are any: their accuracy is unknown.
    pub(super) fn noting_untested(mut self) -> Dataset {
        let classes = self.class_names.iter().zip(self.test.by_class());
        let untested: Vec<&str> = classes
            .filter(|(_, samples)| samples.is_empty())
            .map(|(name, _)| name.as_str())
            .collect();
        self.notes.extend(note(&untested, self.classes()));
        self
    }
}

fn note(untested: &[&str], classes: usize) -> Option<String> {
    let count = untested.len();
    let have =
        if count == 1 { "has no test samples: it has" } else { "have no test samples: they have" };
    let named = listed(untested, NAMED);
    (count > 0).then(|| format!("{count} of {classes} classes {have} no accuracy ({named})"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::data::Split;

    #[test]
    fn classes_without_test_samples_are_named_once() {
        let split = |labels: &[u32]| {
            let bytes = vec![0; labels.len()];
            Arc::new(Split::from_buffer(bytes, [1, 1, 1], labels.to_vec(), 3).unwrap())
        };
        let of = |test: &[u32]| Dataset {
            name: "d".into(),
            class_names: ["cat", "dog", "emu"].map(String::from).to_vec(),
            train: split(&[0, 1, 2]),
            test: split(test),
            notes: Vec::new(),
        };
        assert!(of(&[0, 1, 2, 2]).noting_untested().notes.is_empty());
        let note = "1 of 3 classes has no test samples: it has no accuracy (`dog`)";
        assert_eq!(of(&[0, 2]).noting_untested().notes, [note]);
        let note = "2 of 3 classes have no test samples: they have no accuracy (`cat`, `dog`)";
        assert_eq!(of(&[2]).noting_untested().notes, [note]);
    }

    #[test]
    fn of_many_classes_some_are_named() {
        let names = ["a"; 8];
        let said = note(&names, 9).unwrap();
        assert!(said.ends_with("(`a`, `a`, `a`, `a`, `a` and 3 more)"), "{said}");
        assert!(note(&names[..5], 9).unwrap().ends_with("`a`)"));
    }
}
