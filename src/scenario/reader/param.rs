//! Description of one key: name, default, range, meaning, source.

use serde::Serialize;

use super::choice::Words;
use super::readable::Readable;

use crate::document::Document;

/// Key of a table.
#[derive(Clone, Debug)]
pub struct Param<T> {
    pub(super) spec: KeySpec,
    /// Default; for required keys an example.
    pub(super) value: Option<T>,
}

/// Description of a key, whatever the type of its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeySpec {
    pub name: &'static str,
    pub required: bool,
    pub doc: &'static str,
    pub source: Option<&'static str>,
    pub bounds: Bounds,
    /// Marks a key that accepts infinity.
    pub endless: bool,
}

/// Type of a key's values, in words.
pub(super) struct ValueKind {
    /// The type.
    pub kind: &'static str,
    /// Type of the entries of a list.
    pub entries: Option<&'static str>,
    /// Possible values, if there are few.
    pub choices: Words,
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
        Param { value: Some(default), ..Param::unset(name, doc) }
    }

    /// Creates a key that must be written; errors propose `example`.
    pub fn required(name: &'static str, example: T, doc: &'static str) -> Param<T> {
        Param::new(name, example, doc).with(|spec| spec.required = true)
    }

    /// Creates an optional key without a default.
    ///
    /// It is read with [`TableReader::optional`](super::TableReader::optional).
    pub fn unset(name: &'static str, doc: &'static str) -> Param<T> {
        let (source, bounds) = (None, Bounds::default());
        let spec = KeySpec { name, required: false, doc, source, bounds, endless: false };
        Param { spec, value: None }
    }

    /// Sets the source of the default: a section of a paper, or a file of its code.
    pub fn source(self, source: &'static str) -> Param<T> {
        self.with(|spec| spec.source = Some(source))
    }

    /// Sets the smallest value; for a list, of every entry.
    pub fn at_least(self, least: f64) -> Param<T> {
        self.with(|spec| spec.bounds.least = Some((least, Edge::Included)))
    }

    /// Sets a lower bound that is excluded.
    pub fn above(self, bound: f64) -> Param<T> {
        self.with(|spec| spec.bounds.least = Some((bound, Edge::Excluded)))
    }

    /// Sets the largest value.
    pub fn at_most(self, most: f64) -> Param<T> {
        self.with(|spec| spec.bounds.most = Some((most, Edge::Included)))
    }

    /// Sets an upper bound that is excluded.
    pub fn below(self, bound: f64) -> Param<T> {
        self.with(|spec| spec.bounds.most = Some((bound, Edge::Excluded)))
    }

    /// Allows infinity, for example as a bandwidth without limit.
    pub fn or_infinite(self) -> Param<T> {
        self.with(|spec| spec.endless = true)
    }

    fn with(mut self, change: impl FnOnce(&mut KeySpec)) -> Param<T> {
        change(&mut self.spec);
        self
    }
}

impl<T: Readable> Param<T> {
    /// Returns the description for `methods show` and the schema.
    pub(super) fn describe(&self) -> KeyDoc {
        let kind = ValueKind { kind: T::WHAT, entries: T::ENTRIES, choices: T::choices() };
        self.spec.describe(kind, self.value.as_ref().map(T::to_toml))
    }
}

// Written once for all types of values: every key of a scenario is read through it.
impl KeySpec {
    /// Returns true if all numbers of a value are finite, or may be infinite.
    pub fn is_finite(&self, numbers: &[f64]) -> bool {
        self.endless || numbers.iter().all(|number| number.is_finite())
    }

    /// Returns the description of a key whose default or example is `shown`.
    fn describe(&self, value: ValueKind, shown: Option<toml::Value>) -> KeyDoc {
        let shown = shown.map(|value| value.to_string());
        let (default, example) = match self.required {
            true => (None, shown),
            false => (shown, None),
        };
        KeyDoc {
            key: self.name.to_owned(),
            kind: value.kind,
            default,
            example,
            required: self.required,
            range: self.bounds.range(),
            bounds: self.bounds,
            entries: value.entries,
            doc: self.doc,
            source: self.source,
            choices: value.choices,
        }
    }
}

/// Bounds of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bounds {
    pub least: Option<(f64, Edge)>,
    pub most: Option<(f64, Edge)>,
}

impl Bounds {
    /// Returns the range in words, such as `above 0 and at most 1`; `None` without bounds.
    pub fn range(&self) -> Option<String> {
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
    pub fn admits(&self, numbers: &[f64]) -> bool {
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
