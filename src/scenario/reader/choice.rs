//! Keys whose values are a few words.

#![allow(private_interfaces)]

use parking_lot::Mutex;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::node::{Node, TomlValue};
use super::readable::{Readable, ValueFault};
use super::suggest::{alternatives, nearest};

/// Words of a key, each with its meaning.
pub type Words = Arc<[(String, String)]>;

/// Words by type. The reader needs them at every key, and clap creates them again each time.
static WORDS: Mutex<BTreeMap<TypeId, Words>> = Mutex::new(BTreeMap::new());

/// Largest number of words that an error lists even if one is near to the typed one.
const FEW: usize = 4;

/// Closed set of words in a scenario file.
///
/// A word is a variant's name, its meaning the first paragraph of the variant's documentation.
pub trait Choice: ValueEnum + Copy + PartialEq + 'static {
    /// Returns the word of this value.
    fn word(&self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl<T: Choice> Readable for T {
    const WHAT: &'static str = "a word";

    fn read(node: &Node) -> Result<Self, ValueFault> {
        let words: Vec<String> = T::value_variants().iter().map(T::word).collect();
        position(node, &words).map(|place| T::value_variants()[place])
    }

    fn to_toml(&self) -> toml::Value {
        self.word().into()
    }

    fn choices() -> Words {
        let mut known = WORDS.lock();
        let words = known.entry(TypeId::of::<T>()).or_insert_with(|| {
            let values = T::value_variants().iter().filter_map(T::to_possible_value);
            values.map(|value| (value.get_name().to_owned(), meaning(&value))).collect()
        });
        Arc::clone(words)
    }
}

/// Returns the place of a written word among those that are possible.
fn position(node: &Node, words: &[String]) -> Result<usize, ValueFault> {
    let all = || words.iter().map(String::as_str);
    let TomlValue::String(typed) = &node.value else {
        let help = format!("write one of {} in quotes", alternatives(all()));
        return Err(ValueFault::wrong_type(node, "a string").help(help));
    };
    all().position(|word| word == typed).ok_or_else(|| {
        let possible = alternatives(all());
        let help = match nearest(typed, all()) {
            Some(word) if words.len() <= FEW => {
                format!("did you mean \"{word}\"? There are {possible}")
            }
            Some(word) => format!("did you mean \"{word}\"?"),
            None => format!("possible values are {possible}"),
        };
        ValueFault::new(node, format!("`{typed}` is not a value of {{key}}"), "unknown value")
            .help(help)
    })
}

/// Returns the meaning for lists, without the capital of a sentence. Names (`CLS`, `FedHAF`) keep theirs.
fn meaning(value: &PossibleValue) -> String {
    let text = value.get_help().map(ToString::to_string).unwrap_or_default();
    let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    match word.chars().skip(1).any(|c| !c.is_lowercase()) {
        true => text,
        false => {
            text.chars().take(1).flat_map(char::to_lowercase).chain(text.chars().skip(1)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
    enum Prompt {
        /// A prefix of
        /// every block.
        ///
        /// More about it.
        PrefixTuning,
        /// CLS alone.
        #[value(name = "cls_only")]
        Cls,
    }

    impl Choice for Prompt {}

    #[test]
    fn words_and_meanings_come_from_the_variants() {
        let expected = [("prefix-tuning", "a prefix of every block"), ("cls_only", "CLS alone")];
        let expected = expected.map(|(word, meaning)| (word.to_owned(), meaning.to_owned()));
        assert_eq!(*Prompt::choices(), expected);
        assert_eq!(Prompt::Cls.word(), "cls_only");
    }
}
