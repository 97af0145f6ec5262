//! Description of one key: name, default, range, meaning, source.

use serde::Serialize;

use super::choice::Words;
use super::readable::Readable;

use crate::document::Document;

/// Key of a table.
#[derive(Clone, Debug)]
pub struct Param<T> {
    pub(super) name: &'static str,
    /// Default; for required keys an example.
    pub(super) value: Option<T>,
    pub(super) required: bool,
    pub(super) doc: &'static str,
    pub(super) source: Option<&'static str>,
    pub(super) least: Option<(f64, Edge)>,
    pub(super) most: Option<(f64, Edge)>,
    /// Marks a key that accepts infinity.
    pub(super) endless: bool,
}

/// Side of a bound: closed or open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Edge {
    Included,
    Excluded,
}

impl<T> Param<T> {
    /// Creates a key with a default.
    pub fn new(name: &'static str, default: T, doc: &'static str) -> Param<T> {
        Param {
            name,
            value: Some(default),
            required: false,
            doc,
            source: None,
            least: None,
            most: None,
            endless: false,
        }
    }

    /// Creates a key that must be written; errors propose `example`.
    pub fn required(name: &'static str, example: T, doc: &'static str) -> Param<T> {
        Param { required: true, ..Param::new(name, example, doc) }
    }

    /// Creates an optional key without a default.
    ///
    /// It is read with [`TableReader::optional`](super::TableReader::optional).
    pub fn unset(name: &'static str, doc: &'static str) -> Param<T> {
        let (source, least, most) = (None, None, None);
        Param { name, value: None, required: false, doc, source, least, most, endless: false }
    }

    /// Sets the source of the default: a section of a paper, or a file of its code.
    pub fn source(self, source: &'static str) -> Param<T> {
        Param { source: Some(source), ..self }
    }

    /// Sets the smallest value; for a list, of every entry.
    pub fn at_least(self, least: f64) -> Param<T> {
        Param { least: Some((least, Edge::Included)), ..self }
    }

    /// Sets a lower bound that is excluded.
    pub fn above(self, bound: f64) -> Param<T> {
        Param { least: Some((bound, Edge::Excluded)), ..self }
    }

    /// Sets the largest value.
    pub fn at_most(self, most: f64) -> Param<T> {
        Param { most: Some((most, Edge::Included)), ..self }
    }

    /// Sets an upper bound that is excluded.
    pub fn below(self, bound: f64) -> Param<T> {
        Param { most: Some((bound, Edge::Excluded)), ..self }
    }

    /// Allows infinity, for example as a bandwidth without limit.
    pub fn or_infinite(self) -> Param<T> {
        Param { endless: true, ..self }
    }

    /// Returns true if all numbers of a value are finite, or may be infinite.
    pub(super) fn is_finite(&self, numbers: &[f64]) -> bool {
        self.endless || numbers.iter().all(|number| number.is_finite())
    }

    /// Returns the range in words, such as `above 0 and at most 1`; `None` without bounds.
    pub(super) fn range(&self) -> Option<String> {
        let bound = |(value, edge): (f64, Edge), included: &str, excluded: &str| {
            format!("{} {value}", if edge == Edge::Included { included } else { excluded })
        };
        let least = self.least.map(|b| bound(b, "at least", "above"));
        let most = self.most.map(|b| bound(b, "at most", "below"));
        match (least, most) {
            (Some(least), Some(most)) => Some(format!("{least} and {most}")),
            (one, other) => one.or(other),
        }
    }

    /// Returns true if every number of a value is inside the bounds.
    pub(super) fn admits(&self, numbers: &[f64]) -> bool {
        numbers.iter().all(|number| {
            let above = self.least.is_none_or(|(bound, edge)| {
                *number > bound || edge == Edge::Included && *number == bound
            });
            let below = self.most.is_none_or(|(bound, edge)| {
                *number < bound || edge == Edge::Included && *number == bound
            });
            above && below
        })
    }
}

impl<T: Readable> Param<T> {
    /// Returns the description for `methods show` and the schema.
    pub(super) fn describe(&self, path: &str) -> KeyDoc {
        let shown = self.value.as_ref().map(|v| v.to_toml().to_string());
        KeyDoc {
            key: path.to_owned(),
            kind: T::WHAT,
            default: shown.clone().filter(|_| !self.required),
            example: shown.filter(|_| self.required),
            required: self.required,
            range: self.range(),
            bounds: Bounds { least: self.least, most: self.most },
            entries: T::ENTRIES,
            doc: self.doc,
            source: self.source,
            choices: T::choices(),
        }
    }
}

/// Bounds of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bounds {
    pub least: Option<(f64, Edge)>,
    pub most: Option<(f64, Edge)>,
}

/// Description of a key, as text.
#[derive(Clone, Debug, PartialEq, Serialize, Document)]
pub struct KeyDoc {
    /// Path inside the table that was described, such as `optimizer.lr`.
    pub key: String,
    /// Type in words: `an integer`, `a number`, `a word`, ...
    pub kind: &'static str,
    /// Default in TOML; none for required and optional keys.
    pub default: Option<String>,
    /// Example of a required key, in TOML.
    pub example: Option<String>,
    /// Marks a key that must be written.
    pub required: bool,
    /// Range in words, such as `above 0 and at most 1`.
    pub range: Option<String>,
    /// Range as numbers.
    #[serde(skip)]
    pub(super) bounds: Bounds,
    /// Type of the entries of a list, in words.
    pub entries: Option<&'static str>,
    /// Meaning of the key.
    pub doc: &'static str,
    /// Source of the default.
    pub source: Option<&'static str>,
    /// Word and meaning of every possible value, if there are few.
    pub choices: Words,
}
