//! The description of one key: name, default, range, meaning, source. Written once.

use serde::Serialize;

use super::choice::Words;
use super::readable::Readable;

/// One key of a table.
#[derive(Clone, Debug)]
pub struct Param<T> {
    pub(super) name: &'static str,
    /// The default; for required keys an example.
    pub(super) value: Option<T>,
    pub(super) required: bool,
    pub(super) doc: &'static str,
    pub(super) source: Option<&'static str>,
    pub(super) least: Option<(f64, Edge)>,
    pub(super) most: Option<(f64, Edge)>,
    /// Whether infinity means something.
    pub(super) endless: bool,
}

/// Whether a bound itself is allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Edge {
    Included,
    Excluded,
}

impl<T> Param<T> {
    /// A key with a default.
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

    /// A key that must be written; `example` is what the error proposes.
    pub fn required(name: &'static str, example: T, doc: &'static str) -> Param<T> {
        Param { required: true, ..Param::new(name, example, doc) }
    }

    /// A key that may be left out and has no default, for [`TableReader::optional`](super::TableReader::optional).
    pub fn unset(name: &'static str, doc: &'static str) -> Param<T> {
        let (source, least, most) = (None, None, None);
        Param { name, value: None, required: false, doc, source, least, most, endless: false }
    }

    /// Where the default comes from: a section of a paper, a file of its code.
    pub fn source(self, source: &'static str) -> Param<T> {
        Param { source: Some(source), ..self }
    }

    /// Smallest value; of a list, of every entry.
    pub fn at_least(self, least: f64) -> Param<T> {
        Param { least: Some((least, Edge::Included)), ..self }
    }

    /// Values must be larger than this.
    pub fn above(self, bound: f64) -> Param<T> {
        Param { least: Some((bound, Edge::Excluded)), ..self }
    }

    /// Largest value.
    pub fn at_most(self, most: f64) -> Param<T> {
        Param { most: Some((most, Edge::Included)), ..self }
    }

    /// Values must be smaller than this.
    pub fn below(self, bound: f64) -> Param<T> {
        Param { most: Some((bound, Edge::Excluded)), ..self }
    }

    /// Infinity is a value, too, such as a rate without limit.
    pub fn or_infinite(self) -> Param<T> {
        Param { endless: true, ..self }
    }

    /// Whether all numbers of a value are finite, or need not be.
    pub(super) fn is_finite(&self, numbers: &[f64]) -> bool {
        self.endless || numbers.iter().all(|number| number.is_finite())
    }

    /// `above 0 and at most 1`; `None` without bounds.
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

    /// Whether every number of a value lies inside the bounds.
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
    /// For `methods show` and the schema.
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

/// The bounds of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Bounds {
    pub least: Option<(f64, Edge)>,
    pub most: Option<(f64, Edge)>,
}

/// The description of a key, as text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyDoc {
    /// Its path inside the table that was described, such as `optimiser.lr`.
    pub key: String,
    /// `an integer`, `a number`, `a word`, ...
    pub kind: &'static str,
    /// In TOML; none for required and optional keys.
    pub default: Option<String>,
    /// Of a required key, in TOML.
    pub example: Option<String>,
    /// Whether it must be written.
    pub required: bool,
    /// `above 0 and at most 1`.
    pub range: Option<String>,
    /// The same for programs.
    #[serde(skip)]
    pub(super) bounds: Bounds,
    /// What the entries of a list are.
    pub entries: Option<&'static str>,
    /// What it does.
    pub doc: &'static str,
    /// Where the default comes from.
    pub source: Option<&'static str>,
    /// Word and meaning of every possible value, where there are few.
    pub choices: Words,
}
