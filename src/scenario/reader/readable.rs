//! Types that a key can have.

// The traits for reading keys are private to `scenario` on purpose; the types are public.
#![allow(private_interfaces)]

use std::path::PathBuf;

use toml::de::DeValue;

use super::choice::Words;
use super::node::{Node, TextSpan, TomlValue};
use super::slips::meant;

/// Reason why a value cannot be read. `{key}` in the message becomes the key's dotted path.
#[derive(Clone, Debug)]
pub struct ValueFault {
    pub(super) span: TextSpan,
    pub(super) message: String,
    pub(super) label: String,
    pub(super) help: Option<String>,
}

impl ValueFault {
    pub(in crate::scenario) fn new(
        node: &Node,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> ValueFault {
        ValueFault { span: node.span, message: message.into(), label: label.into(), help: None }
    }

    /// Shortens the text: keys and words may come from files of any kind.
    pub(super) fn shortened(self) -> ValueFault {
        let ValueFault { span, message, label, help } = self;
        ValueFault {
            span,
            message: shortened(message),
            label: shortened(label),
            help: help.map(shortened),
        }
    }

    pub(in crate::scenario) fn wrong_type(node: &Node, expected: &str) -> ValueFault {
        ValueFault::new(
            node,
            format!("{{key}} must be {expected}"),
            format!("this is {}", node.what()),
        )
    }

    pub(in crate::scenario) fn help(mut self, help: impl Into<String>) -> ValueFault {
        self.help = Some(help.into());
        self
    }
}

/// Type that a key of a scenario can have.
pub trait Readable: Clone + PartialEq + Sized {
    /// Type in words, for "must be ..." and for documentation.
    const WHAT: &'static str;

    /// Type of the entries of a list, in words.
    const ENTRIES: Option<&'static str> = None;

    /// Reads the value, or returns the reason why it cannot be read.
    #[doc(hidden)]
    fn read(node: &Node) -> Result<Self, ValueFault>;

    /// Returns the value as written in the effective scenario.
    fn to_toml(&self) -> toml::Value;

    /// Returns the numbers in it, for ranges.
    fn numbers(&self) -> Vec<f64> {
        Vec::new()
    }

    /// Returns word and meaning of every possible value, if there are few.
    fn choices() -> Words {
        Words::default()
    }
}

impl Readable for f64 {
    const WHAT: &'static str = "a number";

    fn read(node: &Node) -> Result<Self, ValueFault> {
        match node.value {
            TomlValue::Float(number) if number.is_nan() => {
                Err(ValueFault::new(node, "{key} must be a number", "this is not a number"))
            }
            TomlValue::Float(number) => Ok(number),
            TomlValue::Integer(number) => Ok(number as f64),
            _ => Err(unquote(node, ValueFault::wrong_type(node, Self::WHAT))),
        }
    }

    fn to_toml(&self) -> toml::Value {
        (*self).into()
    }

    fn numbers(&self) -> Vec<f64> {
        vec![*self]
    }
}

impl Readable for bool {
    const WHAT: &'static str = "true or false";

    fn read(node: &Node) -> Result<Self, ValueFault> {
        match node.value {
            TomlValue::Boolean(yes) => Ok(yes),
            _ => Err(unquote(node, ValueFault::wrong_type(node, Self::WHAT))),
        }
    }

    fn to_toml(&self) -> toml::Value {
        (*self).into()
    }
}

impl Readable for String {
    const WHAT: &'static str = "a string";

    fn read(node: &Node) -> Result<Self, ValueFault> {
        match &node.value {
            TomlValue::String(text) => Ok(text.clone()),
            _ => Err(ValueFault::wrong_type(node, Self::WHAT)),
        }
    }

    fn to_toml(&self) -> toml::Value {
        self.clone().into()
    }
}

impl Readable for PathBuf {
    const WHAT: &'static str = "a string";

    fn read(node: &Node) -> Result<Self, ValueFault> {
        String::read(node).map(PathBuf::from)
    }

    fn to_toml(&self) -> toml::Value {
        self.to_string_lossy().into_owned().into()
    }
}

/// Reads an integer of at most `largest`. TOML's integers end at `i64::MAX`.
fn integer<T: TryFrom<i64>>(node: &Node, largest: u64) -> Result<T, ValueFault> {
    let largest = largest.min(i64::MAX as u64);
    let fault =
        |must: String| ValueFault::new(node, format!("{{key}} must {must}"), "out of range");
    match node.value {
        TomlValue::Integer(number) => T::try_from(number).map_err(|_| match number {
            ..0 => fault("not be negative".to_owned()),
            _ => fault(format!("be at most {largest}")),
        }),
        TomlValue::Unrepresentable => Err(fault(format!("be an integer from 0 to {largest}"))),
        TomlValue::Float(number) if number.fract() == 0.0 && number.abs() < 1e9 => {
            Err(ValueFault::wrong_type(node, "an integer")
                .help(format!("write `{}`", number as i64)))
        }
        _ => Err(unquote(node, ValueFault::wrong_type(node, "an integer"))),
    }
}

macro_rules! whole_number {
    ($($int:ty),*) => {$(
                impl Readable for $int {
            const WHAT: &'static str = "an integer";

            fn read(node: &Node) -> Result<Self, ValueFault> {
                integer(node, <$int>::MAX as u64)
            }

            fn to_toml(&self) -> toml::Value {
                // What can be read ends where TOML's integers do.
                i64::try_from(*self).unwrap_or(i64::MAX).into()
            }

            fn numbers(&self) -> Vec<f64> {
                vec![*self as f64]
            }
        }
    )*};
}
whole_number!(u32, u64, usize);

impl<T: Readable> Readable for Vec<T> {
    const WHAT: &'static str = "a list";
    const ENTRIES: Option<&'static str> = Some(T::WHAT);

    fn read(node: &Node) -> Result<Self, ValueFault> {
        match &node.value {
            TomlValue::Array(items) => items.iter().map(T::read).collect(),
            _ => Err(ValueFault::wrong_type(node, &format!("a list, each entry {}", T::WHAT))),
        }
    }

    fn to_toml(&self) -> toml::Value {
        self.iter().map(T::to_toml).collect::<Vec<_>>().into()
    }

    fn numbers(&self) -> Vec<f64> {
        self.iter().flat_map(T::numbers).collect()
    }

    fn choices() -> Words {
        T::choices()
    }
}

impl<T: Readable, const N: usize> Readable for [T; N] {
    const WHAT: &'static str = "a list";
    const ENTRIES: Option<&'static str> = Some(T::WHAT);

    fn read(node: &Node) -> Result<Self, ValueFault> {
        let items = Vec::<T>::read(node)?;
        let found = items.len();
        <[T; N]>::try_from(items).map_err(|_| {
            let message = format!("{{key}} must be a list of {N}, each {}", T::WHAT);
            let help = format!("write {N} values, separated by commas");
            ValueFault::new(node, message, format!("this has {found}")).help(help)
        })
    }

    fn to_toml(&self) -> toml::Value {
        self.to_vec().to_toml()
    }

    fn numbers(&self) -> Vec<f64> {
        self.to_vec().numbers()
    }
}

/// Largest number of characters of a text that are shown; lists of possible keys are the longest.
const READ: usize = 1_000;

fn shortened(text: String) -> String {
    match text.char_indices().nth(READ) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Improves the error of a value in quotes or of a value that is not TOML.
///
/// A quoted number or boolean is the most common mistake.
fn unquote(node: &Node, fault: ValueFault) -> ValueFault {
    let TomlValue::String(text) = &node.value else { return fault };
    let plain = DeValue::parse(text).is_ok_and(|value| {
        matches!(value.get_ref(), DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_))
    });
    match (plain, meant(text)) {
        (true, _) => fault.help(format!("write `{text}`, without quotes")),
        (false, Some(meant)) => fault.help(format!("write `{meant}`")),
        (false, None) => fault,
    }
}
