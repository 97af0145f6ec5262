//! TOML value with the place where it was written.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// Part of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scenario) struct TextSpan {
    /// Index of the source in its [`ReadingReport`](super::ReadingReport).
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// Byte after the last; equal to `start` if there is nothing to point to.
    pub end: usize,
}

impl TextSpan {
    pub fn new(source: usize, range: Range<usize>) -> TextSpan {
        TextSpan { source, start: range.start, end: range.end }
    }
}

/// Value and its place.
#[derive(Clone, Debug)]
pub(in crate::scenario) struct Node {
    pub value: TomlValue,
    pub span: TextSpan,
}

/// Value of TOML.
#[derive(Clone, Debug)]
pub(in crate::scenario) enum TomlValue {
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Datetime,
    Array(Vec<Node>),
    Table(Table),
    /// Number that does not fit into 64 bits.
    Unrepresentable,
}

/// Keys in alphabetical order.
pub(in crate::scenario) type Table = BTreeMap<String, TomlEntry>;

/// Value with the place of its key.
#[derive(Clone, Debug)]
pub(in crate::scenario) struct TomlEntry {
    pub key: TextSpan,
    pub node: Node,
}

impl Node {
    /// Returns an empty table that is written nowhere.
    pub fn empty_table() -> Node {
        Node { value: TomlValue::Table(Table::new()), span: TextSpan::default() }
    }

    /// Converts the parser's tree.
    pub fn new(source: usize, value: &DeValue<'_>, span: Range<usize>) -> Node {
        let child = |v: &toml::Spanned<DeValue<'_>>| Node::new(source, v.get_ref(), v.span());
        let value = match value {
            DeValue::String(text) => TomlValue::String(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(TomlValue::Unrepresentable, TomlValue::Integer),
            // Whole, and written so: `1e9` is as good as all its zeros.
            DeValue::Float(number)
                if !number.as_str().contains('.') && is_whole(number.as_str()) =>
            {
                number
                    .as_str()
                    .parse()
                    .map_or(TomlValue::Unrepresentable, |n: f64| TomlValue::Integer(n as i64))
            }
            DeValue::Float(number) => {
                number.as_str().parse().map_or(TomlValue::Unrepresentable, TomlValue::Float)
            }
            DeValue::Boolean(yes) => TomlValue::Boolean(*yes),
            DeValue::Datetime(_) => TomlValue::Datetime,
            DeValue::Array(items) => TomlValue::Array(items.iter().map(child).collect()),
            DeValue::Table(table) => TomlValue::Table(entries(source, table)),
        };
        Node { value, span: TextSpan::new(source, span) }
    }

    /// Converts the parser's document.
    pub fn document(source: usize, document: &DeTable<'_>) -> Node {
        Node {
            value: TomlValue::Table(entries(source, document)),
            span: TextSpan::new(source, 0..0),
        }
    }

    /// Returns the value moved by `offset` bytes in its source.
    pub fn shifted(mut self, offset: usize) -> Node {
        self.span.start += offset;
        self.span.end += offset;
        self.value = match self.value {
            TomlValue::Array(items) => {
                TomlValue::Array(items.into_iter().map(|item| item.shifted(offset)).collect())
            }
            TomlValue::Table(table) => {
                let moved = table.into_iter().map(|(name, TomlEntry { mut key, node })| {
                    key.start += offset;
                    key.end += offset;
                    (name, TomlEntry { key, node: node.shifted(offset) })
                });
                TomlValue::Table(moved.collect())
            }
            plain => plain,
        };
        self
    }

    /// Sets the source of the value and of everything in it.
    pub fn stand_in(&mut self, source: usize) {
        self.span.source = source;
        match &mut self.value {
            TomlValue::Array(items) => items.iter_mut().for_each(|item| item.stand_in(source)),
            TomlValue::Table(table) => table.values_mut().for_each(|entry| {
                entry.key.source = source;
                entry.node.stand_in(source);
            }),
            _ => {}
        }
    }

    /// Describes the value for "expected ..., found ...".
    pub fn what(&self) -> &'static str {
        match &self.value {
            TomlValue::String(_) => "a string",
            TomlValue::Integer(_) => "an integer",
            TomlValue::Float(_) => "a number with a fraction",
            TomlValue::Boolean(_) => "a boolean",
            TomlValue::Datetime => "a date",
            TomlValue::Array(_) => "a list",
            TomlValue::Table(_) => "a table",
            TomlValue::Unrepresentable => "a number too large",
        }
    }

    /// Returns the table, if it is one.
    pub fn as_table(&self) -> Option<&Table> {
        match &self.value {
            TomlValue::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Returns the value at a dotted path.
    pub fn at(&self, path: &str) -> Option<&TomlEntry> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(f, r)| (f, Some(r)));
        let entry = self.as_table()?.get(first)?;
        rest.map_or(Some(entry), |rest| entry.node.at(rest))
    }

    /// Removes the value at a dotted path, if it is there.
    pub fn remove(&mut self, path: &str) {
        let TomlValue::Table(table) = &mut self.value else { return };
        match path.split_once('.') {
            None => _ = table.remove(path),
            Some((first, rest)) => {
                table.get_mut(first).into_iter().for_each(|entry| entry.node.remove(rest));
            }
        }
    }

    /// Returns the value at a dotted path that may go through lists, as in `faults.0.clients`.
    pub fn find(&self, path: &str) -> Option<&Node> {
        let (first, rest) = path.split_once('.').map_or((path, None), |(f, r)| (f, Some(r)));
        let node = match &self.value {
            TomlValue::Table(table) => &table.get(first)?.node,
            TomlValue::Array(items) => items.get(first.parse::<usize>().ok()?)?,
            _ => return None,
        };
        rest.map_or(Some(node), |rest| node.find(rest))
    }

    /// Returns the value at a dotted path, or the nearest table around it that is written.
    pub fn nearest(&self, mut path: &str) -> &Node {
        loop {
            match (self.find(path), path.rsplit_once('.')) {
                (Some(node), _) => return node,
                (None, Some((outer, _))) => path = outer,
                (None, None) => return self,
            }
        }
    }

    /// Converts the value to TOML without places; `None` for types that scenarios do not have (dates).
    pub fn to_toml(&self) -> Option<toml::Value> {
        Some(match &self.value {
            TomlValue::String(text) => text.clone().into(),
            TomlValue::Integer(number) => (*number).into(),
            TomlValue::Float(number) => (*number).into(),
            TomlValue::Boolean(yes) => (*yes).into(),
            TomlValue::Datetime | TomlValue::Unrepresentable => return None,
            TomlValue::Array(items) => {
                items.iter().map(Node::to_toml).collect::<Option<Vec<_>>>()?.into()
            }
            TomlValue::Table(table) => {
                let pairs = table.iter().map(|(k, e)| Some((k.clone(), e.node.to_toml()?)));
                toml::Value::Table(pairs.collect::<Option<toml::Table>>()?)
            }
        })
    }
}

/// Returns true if a number is an integer that a float represents exactly.
fn is_whole(number: &str) -> bool {
    const EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
    number.parse::<f64>().is_ok_and(|value| value.fract() == 0.0 && value.abs() <= EXACT)
}

fn entries(source: usize, table: &DeTable<'_>) -> Table {
    let pairs = table.iter().map(|(key, value)| {
        let node = Node::new(source, value.get_ref(), value.span());
        (key.get_ref().to_string(), TomlEntry { key: TextSpan::new(source, key.span()), node })
    });
    pairs.collect()
}
