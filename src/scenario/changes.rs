//! Changes to a scenario that are written in another file: what an arm of a study does to its base.
//!
//! A plain key replaces the whole value or table: `method = { name = "stsa" }` removes all keys of the base's
//! `[method]`, because they belong to another method. A dotted key, quoted or not, changes that key only:
//! `client.epochs = 2`. Errors point to the file in which a change is written, and its paths are relative to that
//! file's folder.

#![allow(private_interfaces)]

use std::path::PathBuf;

use super::Override;
use super::error::ScenarioError;
use super::overrides::{key_path, place};
use super::reader::{
    Node, Readable, ReadingReport, SourceText, Table, TomlEntry, TomlValue, ValueFault,
};

/// File that changes are written in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangesFile {
    /// Path as the user gave it.
    pub name: String,
    /// Whole text of the file.
    pub text: String,
    /// Absolute folder to which its relative paths refer.
    pub folder: PathBuf,
}

impl ChangesFile {
    /// Returns an error at a key of one entry of a list of tables, such as `[[cell]]`.
    pub fn error_in(
        &self,
        (list, index, key): (&str, usize, &str),
        message: &str,
        label: &str,
        help: &str,
    ) -> ScenarioError {
        let mut report = ReadingReport::default();
        let root = report.parse(SourceText::new(&self.name, &self.text));
        let entries = root.at(list).map(|entry| &entry.node.value);
        let entry = match entries {
            Some(TomlValue::Array(entries)) => entries.get(index),
            _ => None,
        };
        let node = entry.map_or(&root, |entry| entry.nearest(key));
        report.fault(ValueFault::new(node, message, label).help(help));
        report.into_error()
    }

    /// Returns an error at a key of the file.
    pub fn error_at(&self, key: &str, message: &str, label: &str, help: &str) -> ScenarioError {
        let mut report = ReadingReport::default();
        let root = report.parse(SourceText::new(&self.name, &self.text));
        report.fault(ValueFault::new(root.nearest(key), message, label).help(help));
        report.into_error()
    }
}

/// Value as written, with its place.
#[derive(Clone, Debug)]
pub struct Written(Node);

impl PartialEq for Written {
    fn eq(&self, other: &Written) -> bool {
        self.to_toml() == other.to_toml()
    }
}

impl Readable for Written {
    const WHAT: &'static str = "a value";

    fn read(node: &Node) -> Result<Written, ValueFault> {
        match node.to_toml() {
            Some(_) => Ok(Written(node.clone())),
            None => Err(ValueFault::wrong_type(node, "a number, a word, a list or a table")),
        }
    }

    fn to_toml(&self) -> toml::Value {
        self.0.to_toml().expect("checked when it was read")
    }
}

impl Written {
    /// Returns the value without its place.
    pub fn value(&self) -> toml::Value {
        self.to_toml()
    }
}

impl From<toml::Value> for Written {
    /// Wraps a value that has no place in a file.
    fn from(value: toml::Value) -> Written {
        let text = format!("v = {value}");
        let parsed = toml::de::DeTable::parse(&text).ok();
        let node =
            parsed.and_then(|table| Some(Node::document(0, table.get_ref()).at("v")?.node.clone()));
        Written(node.unwrap_or_else(Node::empty_table))
    }
}

/// Set of changes, in the order of their places.
#[derive(Clone, Debug, Default)]
pub struct Changes(Vec<(Vec<String>, TomlEntry)>);

impl PartialEq for Changes {
    fn eq(&self, other: &Changes) -> bool {
        self.texts() == other.texts()
    }
}

impl Readable for Changes {
    const WHAT: &'static str = "a table of changes";

    fn read(node: &Node) -> Result<Changes, ValueFault> {
        let TomlValue::Table(table) = &node.value else {
            let fault = ValueFault::wrong_type(node, Self::WHAT);
            return Err(fault.help("write `{ federation.rounds = 2 }`, or `{ method = { ... } }`"));
        };
        let mut changes = Vec::new();
        collect(table, &[], &mut changes)?;
        changes.sort_by_key(|(_, entry)| entry.key);
        Ok(Changes(changes))
    }

    fn to_toml(&self) -> toml::Value {
        let entry =
            |(path, entry): &(Vec<String>, TomlEntry)| Some((joined(path), entry.node.to_toml()?));
        toml::Value::Table(self.0.iter().filter_map(entry).collect())
    }
}

impl Changes {
    /// Returns the change of one key to a value; `None` if `key` is not a key.
    pub fn at(key: &str, value: &Written) -> Option<Changes> {
        let entry = TomlEntry { key: value.0.span, node: value.0.clone() };
        Some(Changes(vec![(key_path(key)?, entry)]))
    }

    /// Returns the changes as `key=value`, for users.
    pub fn texts(&self) -> Vec<String> {
        let text = |(path, entry): &(Vec<String>, TomlEntry)| {
            let value = entry.node.to_toml().map_or_else(String::new, |value| value.to_string());
            format!("{}={value}", joined(path))
        };
        self.0.iter().map(text).collect()
    }

    /// Returns the changes as an inline table, in the order in which they apply.
    ///
    /// [`to_toml`](Readable::to_toml) sorts them.
    pub fn inline(&self) -> String {
        let text = |(path, entry): &(Vec<String>, TomlEntry)| {
            let key = toml::Value::from(joined(path));
            Some(format!("{key} = {}", entry.node.to_toml()?))
        };
        match self.0.iter().filter_map(text).collect::<Vec<_>>() {
            changes if changes.is_empty() => "{}".to_owned(),
            changes => format!("{{ {} }}", changes.join(", ")),
        }
    }

    /// Returns a key of `[seed]` that the changes set.
    pub fn seed(&self) -> Option<String> {
        let seeds = self.0.iter().find(|(path, _)| path.first().is_some_and(|name| name == "seed"));
        seeds.map(|(path, _)| joined(path))
    }

    /// Returns true if the changes set published numbers, which are then those of the changed scenario.
    pub fn sets_expected(&self) -> bool {
        self.0.iter().any(|(path, _)| path.first().is_some_and(|name| name == "expected"))
    }

    /// Returns the changes as values of `--set`.
    pub fn overrides(&self) -> Vec<Override> {
        self.texts().into_iter().map(Override::new).collect()
    }

    /// Returns a key that `earlier` sets and that these changes, which apply later, set or remove.
    pub fn clash(&self, earlier: &Changes) -> Option<String> {
        let pairs = self.0.iter().flat_map(|one| earlier.0.iter().map(move |other| (one, other)));
        let mut clashes = pairs.filter_map(|((path, _), (before, entry))| {
            if before.starts_with(path) {
                return Some(joined(before));
            }
            // A change inside a table that was set before clashes if that table has the key.
            let inner = path.strip_prefix(before.as_slice())?;
            entry.node.at(&inner.join("."))?;
            Some(joined(path))
        });
        clashes.next()
    }

    /// Applies the changes to a document. `source` is the index of their file.
    pub(super) fn apply(&self, root: &mut Node, source: usize) {
        for (path, entry) in &self.0 {
            let mut entry = entry.clone();
            entry.key.source = source;
            entry.node.stand_in(source);
            place(root, path, entry);
        }
    }
}

/// Changes of several places in one file, for loading a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Changed<'a> {
    /// File that the changes are written in.
    pub origin: &'a ChangesFile,
    /// Sets of changes; later ones override earlier ones.
    pub sets: &'a [Changes],
}

impl Changed<'_> {
    /// Applies all changes to a scenario and returns the index of their file.
    pub(super) fn apply(&self, root: &mut Node, report: &mut ReadingReport) -> usize {
        let source = report.add(SourceText::new(&self.origin.name, &self.origin.text));
        self.sets.iter().for_each(|set| set.apply(root, source));
        source
    }

    /// Returns the changes that published numbers do not include, as values of `--set`.
    pub(super) fn overrides(&self) -> Vec<Override> {
        let others = self.sets.iter().filter(|set| !set.sets_expected());
        others.flat_map(Changes::overrides).collect()
    }
}

/// Collects the leaves of dotted keys and the whole values of other keys.
fn collect(
    table: &Table,
    above: &[String],
    into: &mut Vec<(Vec<String>, TomlEntry)>,
) -> Result<(), ValueFault> {
    for (name, entry) in table {
        let mut path = above.to_vec();
        match key_path(name).filter(|parts| parts.len() > 1) {
            // A quoted key with dots in it.
            Some(parts) => path.extend(parts),
            None => path.push(name.clone()),
        }
        match &entry.node.value {
            // Dotted keys, or headers below it, made this table: it has no place but that of its key.
            TomlValue::Table(inner) if entry.key == entry.node.span => collect(inner, &path, into)?,
            _ if entry.node.to_toml().is_none() => {
                return Err(ValueFault::wrong_type(
                    &entry.node,
                    "a number, a word, a list or a table",
                ));
            }
            _ => into.push((path, entry.clone())),
        }
    }
    Ok(())
}

/// Joins a path to a dotted key.
fn joined(path: &[String]) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let part = |part: &String| match !part.is_empty() && part.chars().all(bare) {
        true => part.clone(),
        false => toml::Value::from(part.as_str()).to_string(),
    };
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::reader::{Param, read_text};

    fn changes(text: &str) -> Vec<String> {
        let param = || Param::new("set", Changes::default(), "changes");
        read_text(text, "example", |table| table.get(&param())).unwrap().texts()
    }

    #[test]
    fn dotted_keys_are_changes_of_their_own_and_tables_stay_whole() {
        for (text, expected) in [
            ("set = { method = { name = \"a\", x = 1 } }", "method={ name = \"a\", x = 1 }"),
            ("set = { method.x = 1 }", "method.x=1"),
            ("set = { \"client.optimizer.lr\" = 0.5 }", "client.optimizer.lr=0.5"),
            ("set.client.epochs = 2", "client.epochs=2"),
            ("[set]\nclient.epochs = 2", "client.epochs=2"),
            ("[set.client]\nepochs = 2", "client={ epochs = 2 }"),
            ("[set.data.train]\nsize = 2", "data.train={ size = 2 }"),
            ("set.wire.up = { codec = \"f16\" }", "wire.up={ codec = \"f16\" }"),
        ] {
            assert_eq!(changes(text), [expected], "{text}");
        }
        assert_eq!(changes("set = { b.x = 1, a = 2, b.y = 3 }"), ["b.x=1", "a=2", "b.y=3"]);
    }

    #[test]
    fn what_is_no_set_of_changes_is_an_error() {
        let read = |text: &str| {
            let param = Param::new("set", Changes::default(), "changes");
            read_text(text, "example", |table| table.get(&param)).unwrap_err().to_string()
        };
        assert!(read("set = 3").contains("`set` must be a table of changes"));
        assert!(read("set = { a = 1979-05-27 }").contains("this is a date"));
    }
}
