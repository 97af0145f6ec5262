//! Keys with a few words as values.

#![allow(private_interfaces)]

use super::node::{Node, Value};
use super::readable::{Fault, Readable};
use super::suggest::{alternatives, nearest};

/// A closed set of words in a scenario file.
pub trait Choice: Copy + PartialEq + 'static {
    /// Word, value, and what it means.
    const CHOICES: &'static [(&'static str, Self, &'static str)];

    /// The word of this value.
    fn word(&self) -> &'static str {
        // A value left out of `CHOICES` is a slip in the source, seen by the first test of it.
        Self::CHOICES.iter().find(|(_, value, _)| value == self).map_or("?", |(word, ..)| word)
    }
}

impl<T: Choice> Readable for T {
    const WHAT: &'static str = "a word";

    fn read(node: &Node) -> Result<Self, Fault> {
        let words = || Self::CHOICES.iter().map(|(word, ..)| *word);
        let Value::String(typed) = &node.value else {
            let help = format!("write one of {} in quotes", alternatives(words()));
            return Err(Fault::wrong_type(node, "a string").help(help));
        };
        let found = Self::CHOICES.iter().find(|(word, ..)| word == typed);
        found.map(|(_, value, _)| *value).ok_or_else(|| {
            let help = match nearest(typed, words()) {
                Some(word) => format!("did you mean \"{word}\"?"),
                None => format!("possible values are {}", alternatives(words())),
            };
            Fault::new(node, format!("`{typed}` is not a value of {{key}}"), "unknown value")
                .help(help)
        })
    }

    fn to_toml(&self) -> toml::Value {
        self.word().into()
    }

    fn choices() -> Vec<(&'static str, &'static str)> {
        Self::CHOICES.iter().map(|(word, _, doc)| (*word, *doc)).collect()
    }
}
