//! Kinds of a message's bytes, so that a report can show which part grows.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The purpose of a section. The order is that of columns in reports; the discriminants are part of the frame
/// format: append, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Kind {
    /// Parameters of the backbone or of adapters inside it.
    Weights = 1,
    /// Prefixes, prompt tokens, prompt pools and their keys.
    Prompt = 2,
    /// The classifier.
    Head = 3,
    /// Class means, Gaussians, any representative of a class in feature space.
    Prototypes = 4,
    /// Closed-form statistics: Grams, Fisher information, batch-norm moments.
    Statistics = 5,
    /// Generators of images or features.
    Generator = 6,
    /// Images or features that a generator made.
    SyntheticData = 7,
    /// Stored real samples.
    Exemplars = 8,
    /// Sample and class counts, seeds, losses, flags, where they travel as tensors. (What frames need besides
    /// their tensors is counted as `control`, not as a kind.)
    Settings = 9,
    /// Keys, shares and member lists of secure aggregation.
    SecureAggregation = 10,
    /// Data for finding similar client tasks, if clients do that themselves: bytes of fedcast's own way of doing it,
    /// which the release of Powder does not have.
    Similarity = 11,
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = 11;

    /// Every kind, in order.
    pub const ALL: [Kind; Kind::COUNT] = [
        Kind::Weights,
        Kind::Prompt,
        Kind::Head,
        Kind::Prototypes,
        Kind::Statistics,
        Kind::Generator,
        Kind::SyntheticData,
        Kind::Exemplars,
        Kind::Settings,
        Kind::SecureAggregation,
        Kind::Similarity,
    ];

    /// Returns every kind, in order.
    pub fn all() -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter()
    }

    /// Returns the name in scenarios, tables and journals.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Weights => "weights",
            Kind::Prompt => "prompt",
            Kind::Head => "head",
            Kind::Prototypes => "prototypes",
            Kind::Statistics => "statistics",
            Kind::Generator => "generator",
            Kind::SyntheticData => "synthetic_data",
            Kind::Exemplars => "exemplars",
            Kind::Settings => "settings",
            Kind::SecureAggregation => "secure_aggregation",
            Kind::Similarity => "similarity",
        }
    }

    /// Returns true if a lossy codec may touch its f32 tensors: parameters bear rounding, statistics and data do not.
    pub fn is_learnable(self) -> bool {
        matches!(
            self,
            Kind::Weights | Kind::Prompt | Kind::Head | Kind::Prototypes | Kind::Generator
        )
    }

    /// Returns the kind of this name; `-` may stand for `_`, as in scenario keys.
    pub fn from_name(name: &str) -> Option<Kind> {
        let plain = |byte: u8| if byte == b'-' { b'_' } else { byte };
        Kind::all().find(|kind| kind.name().bytes().eq(name.bytes().map(plain)))
    }

    /// Returns its place in [`Kind::ALL`].
    pub fn index(self) -> usize {
        self as usize - 1
    }

    pub(crate) fn from_code(code: u8) -> Option<Kind> {
        Kind::all().find(|k| *k as u8 == code)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_serde_writes_and_codes_return() {
        for kind in Kind::all() {
            let text = serde_json::to_string(&kind).unwrap();
            assert_eq!(text, format!("\"{}\"", kind.name()));
            assert_eq!(Kind::from_code(kind as u8), Some(kind));
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
            assert_eq!(Kind::ALL[kind.index()], kind);
        }
        assert_eq!(Kind::from_name("synthetic-data"), Some(Kind::SyntheticData));
        assert_eq!(Kind::from_name("wheights"), None);
        assert_eq!(Kind::from_code(0), None);
        assert!(Kind::ALL.is_sorted());
    }
}
