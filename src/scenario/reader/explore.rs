//! Search for every key that a reader may ask for, by repeated reading.
//!
//! The keys of a table depend on its content: `partition.beta` is a key only with `kind = "dirichlet"`. The reader is
//! therefore run repeatedly: with nothing, then with every word of every key that has a few, and with and without every
//! optional key and table. The keys that it asks for are recorded. Nothing is listed by hand, so a key that is added to
//! a section appears in `fedcast keys` and in the schema.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::node::{Node, Table, TextSpan, TomlEntry, TomlValue};
use super::param::KeyDoc;
use super::table::{Readout, Recorded, TableReader};

/// All keys and tables that a document may have.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Keys, table by table. A key with several types is listed once for each.
    pub keys: Vec<KnownKey>,
    /// Tables inside the document.
    pub tables: Vec<TableDoc>,
}

/// Key and the condition under which it is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownKey {
    /// Description with the whole path.
    pub doc: KeyDoc,
    /// Conditions: a key, and its words with which this key is valid.
    pub with: Vec<(String, Vec<String>)>,
}

/// Table that the reader asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDoc {
    /// Path of the table.
    pub path: String,
    /// Marks a list of tables.
    pub list: bool,
    /// Marks a table whose keys are names chosen by the user.
    pub open: bool,
}

/// Trial value at a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Word(String),
    Text,
    Number,
    Yes(bool),
    List,
    Table,
}

impl Shape {
    fn node(&self) -> Node {
        let value = match self {
            Shape::Word(word) => TomlValue::String(word.clone()),
            Shape::Text => TomlValue::String("x".to_owned()),
            Shape::Number => TomlValue::Integer(1),
            Shape::Yes(yes) => TomlValue::Boolean(*yes),
            Shape::List => TomlValue::Array(vec![Shape::Number.node()]),
            Shape::Table => TomlValue::Table(Table::new()),
        };
        Node { value, span: TextSpan::default() }
    }

    /// Returns the trial values of a key: its words, truth values, another text than the default, or presence.
    ///
    /// These can decide which other keys are valid. Other keys whose presence matters are found because readers ask for
    /// it and report it.
    fn of(doc: &KeyDoc) -> Vec<Shape> {
        let words = doc.choices.iter().map(|(word, _)| Shape::Word(word.clone()));
        let optional = doc.default.is_none() && !doc.required;
        match doc.kind {
            "true or false" => vec![Shape::Yes(true), Shape::Yes(false)],
            "a list" => optional.then_some(Shape::List).into_iter().collect(),
            "a string" if doc.choices.is_empty() => {
                (!doc.required).then_some(Shape::Text).into_iter().collect()
            }
            "an integer" | "a number" => optional.then_some(Shape::Number).into_iter().collect(),
            _ => words.collect(),
        }
    }
}

/// Paths with their trial values.
type Setting = Vec<(String, Shape)>;

/// Trial value to add to a setting.
struct Trial {
    path: String,
    shape: Shape,
    /// True if it is to be tried here although it was tried in another setting.
    again: bool,
}

/// Reads repeatedly until no new key is asked for.
///
/// The content of a table decides which keys that table has, and nothing about the tables next to it. So only tables
/// with trial values are recorded again: recording is most of the cost of a reading.
pub fn explore<C>(read: impl Fn(&mut TableReader<'_>) -> C) -> Catalogue {
    explored(read, true)
}

/// Reads repeatedly; `narrow` records only tables with trial values.
fn explored<C>(read: impl Fn(&mut TableReader<'_>) -> C, narrow: bool) -> Catalogue {
    let mut found = FoundKeys::default();
    let mut waiting: VecDeque<Setting> = VecDeque::from([Setting::new()]);
    let mut tried: BTreeSet<(String, Shape, Option<String>)> = BTreeSet::new();
    while let Some(setting) = waiting.pop_front() {
        let root = found.document(&setting);
        let tables = narrow.then(|| found.tables_of(&setting)).flatten();
        let recorded = tables.as_ref().map_or(Recorded::All, Recorded::Tables);
        let readout = TableReader::tried(&root, recorded, &read);
        for Trial { path, shape, again } in found.take(&setting, readout) {
            let other = match again {
                true => Some(format!("{setting:?}")),
                false => text_of_same_table(&setting, &path),
            };
            // A new trial value of a table replaces all trial values inside that table.
            if tried.insert((path.clone(), shape.clone(), other)) {
                let inside = format!("{path}.");
                let keep = |(key, _): &&(String, Shape)| *key != path && !key.starts_with(&inside);
                let mut next: Setting = setting.iter().filter(keep).cloned().collect();
                next.push((path, shape));
                waiting.push_back(next);
            }
        }
    }
    found.catalogue()
}

/// Returns the key of the same table that has a text in place of its default. Other keys may depend on it.
fn text_of_same_table(setting: &Setting, path: &str) -> Option<String> {
    let table = |path: &str| path.rsplit_once('.').map(|(table, _)| table.to_owned());
    let (last, _) = setting.last().filter(|(_, shape)| *shape == Shape::Text)?;
    (table(last) == table(path)).then(|| last.clone())
}

/// Merges two descriptions of a key: all that either allows.
fn merge(known: &mut KeyDoc, doc: KeyDoc) {
    known.required &= doc.required;
    if known.bounds.least != doc.bounds.least {
        known.bounds.least = None;
    }
    if known.bounds.most != doc.bounds.most {
        known.bounds.most = None;
    }
    if !Arc::ptr_eq(&known.choices, &doc.choices) {
        let new = doc.choices.iter().filter(|choice| !known.choices.contains(choice));
        let more: Vec<_> = new.cloned().collect();
        if !more.is_empty() {
            known.choices = known.choices.iter().cloned().chain(more).collect();
        }
    }
}

/// Keys and tables found so far.
#[derive(Default)]
struct FoundKeys {
    keys: Vec<KeyDoc>,
    /// Indices in `keys`, one for each type of the key at a path.
    places: BTreeMap<String, Vec<usize>>,
    tables: Vec<TableDoc>,
    /// Paths that were asked for with each word of each key.
    paths_by_word: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl FoundKeys {
    /// Records new keys and returns further trial values.
    fn take(&mut self, setting: &Setting, readout: Readout) -> Vec<Trial> {
        let first = |path: &str, shape| Trial { path: path.to_owned(), shape, again: false };
        let mut next = Vec::new();
        if let Some((path, Shape::Word(word))) = setting.last() {
            let words = self.paths_by_word.entry(path.clone()).or_default();
            let paths = words.entry(word.clone()).or_default();
            let keys = readout.keys.iter().map(|doc| &doc.key);
            for path in keys.chain(readout.tables.iter().map(|table| &table.path)) {
                if !paths.contains(path) {
                    paths.insert(path.clone());
                }
            }
        }
        for doc in readout.keys {
            let places = self.places.get(&doc.key).map_or(&[][..], Vec::as_slice);
            match places.iter().find(|place| self.keys[**place].kind == doc.kind) {
                // Words that the key has only in this setting may allow further keys, too. All of its words are tried
                // here, so that they are compared under the same conditions.
                Some(place) => {
                    let known = &mut self.keys[*place];
                    let (seen, path, words) =
                        (known.choices.len(), doc.key.clone(), Shape::of(&doc));
                    merge(known, doc);
                    if known.choices.len() > seen {
                        let trial = |shape| Trial { path: path.clone(), shape, again: true };
                        next.extend(words.into_iter().map(trial));
                    }
                }
                None => {
                    next.extend(Shape::of(&doc).into_iter().map(|shape| first(&doc.key, shape)));
                    self.places.entry(doc.key.clone()).or_default().push(self.keys.len());
                    self.keys.push(doc);
                }
            }
        }
        for table in readout.tables {
            match self.tables.iter_mut().find(|known| known.path == table.path) {
                Some(known) => known.open |= table.open,
                None => {
                    let shapes = if table.list {
                        vec![Shape::Table]
                    } else {
                        vec![Shape::Table, Shape::Text, Shape::Number]
                    };
                    next.extend(shapes.into_iter().map(|shape| first(&table.path, shape)));
                    self.tables.push(table);
                }
            }
        }
        // Asked for only where they are there.
        for path in readout.probed {
            let shapes = [Shape::Text, Shape::Number, Shape::List, Shape::Table];
            next.extend(shapes.into_iter().map(|shape| first(&path, shape)));
        }
        next
    }

    /// Returns the outermost tables with trial values; `None` if a value stands outside of tables.
    fn tables_of(&self, setting: &Setting) -> Option<BTreeSet<String>> {
        let outermost = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
        let names: BTreeSet<String> = setting.iter().map(|(path, _)| outermost(path)).collect();
        let is_table = |name: &String| self.tables.iter().any(|table| table.path == *name);
        (!names.is_empty() && names.iter().all(is_table)).then_some(names)
    }

    /// Returns a document with these trial values.
    fn document(&self, setting: &Setting) -> Node {
        let mut root = Node::empty_table();
        for (path, shape) in setting {
            let parts: Vec<&str> = path.split('.').collect();
            self.put(&mut root, "", &parts, shape.node());
        }
        root
    }

    fn put(&self, node: &mut Node, above: &str, parts: &[&str], value: Node) {
        let Some((first, rest)) = parts.split_first() else { return };
        let path = if above.is_empty() { (*first).to_owned() } else { format!("{above}.{first}") };
        let is_list = self.tables.iter().any(|table| table.list && table.path == path);
        let TomlValue::Table(table) = &mut node.value else { return };
        let empty = || TomlEntry { key: TextSpan::default(), node: Node::empty_table() };
        let entry = table.entry((*first).to_owned()).or_insert_with(empty);
        if is_list && !matches!(entry.node.value, TomlValue::Array(_)) {
            entry.node.value = TomlValue::Array(vec![Node::empty_table()]);
        }
        let inner = match &mut entry.node.value {
            TomlValue::Array(items) if is_list => items.first_mut(),
            _ => Some(&mut entry.node),
        };
        let Some(inner) = inner else { return };
        match rest.is_empty() {
            true => *inner = value,
            false => {
                if inner.as_table().is_none() {
                    *inner = Node::empty_table();
                }
                self.put(inner, &path, rest, value);
            }
        }
    }

    /// Returns the keys by table, tables in the order in which they were found.
    fn catalogue(self) -> Catalogue {
        let table_of = |path: &str| path.rsplit_once('.').map_or("", |(table, _)| table).to_owned();
        let mut order: Vec<String> = Vec::new();
        for doc in &self.keys {
            let table = table_of(&doc.key);
            if !order.contains(&table) {
                order.push(table);
            }
        }
        let first = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
        let sections: Vec<String> = order.iter().map(|table| first(table)).collect();
        let place = |doc: &KeyDoc| {
            let table = table_of(&doc.key);
            let section = sections.iter().position(|section| *section == first(&table));
            (section, order.iter().position(|known| *known == table))
        };
        let mut keys: Vec<KnownKey> = Vec::new();
        for doc in &self.keys {
            keys.push(KnownKey { with: self.conditions(&doc.key), doc: doc.clone() });
        }
        keys.sort_by_key(|key| place(&key.doc));
        Catalogue { keys, tables: self.tables }
    }

    /// Returns the conditions of a path: keys in its own table and in outer tables that must have certain words.
    fn conditions(&self, path: &str) -> Vec<(String, Vec<String>)> {
        let mut conditions = Vec::new();
        for (key, words) in &self.paths_by_word {
            let table = key.rsplit_once('.').map_or("", |(table, _)| table);
            // The top of a document and presets decide about defaults only.
            let inside = path.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
            let preset = key.rsplit('.').next() == Some("preset");
            if table.is_empty() || preset || !inside || key == path {
                continue;
            }
            // A key in an optional table is allowed wherever the table is.
            let around = path.match_indices('.').map(|(dot, _)| &path[..dot]);
            let mut inside = around.filter(|around| around.len() > table.len()).chain([path]);
            let asked = |place: &&str| words.values().any(|paths| paths.contains(*place));
            let Some(place) = inside.rfind(asked) else { continue };
            let allow: Vec<String> = words
                .iter()
                .filter(|(_, paths)| paths.contains(place))
                .map(|(word, _)| word.clone())
                .collect();
            if !allow.is_empty() && allow.len() < words.len() {
                conditions.push((key.clone(), allow));
            }
        }
        conditions
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::scenario::reader::{Choice, Param};
    use crate::scenario::{AnyMethod, Scenario};

    #[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
    enum ExampleKind {
        /// No further keys.
        Plain,
        /// Further table.
        Deep,
    }

    impl Choice for ExampleKind {}

    /// Words of `pace` in a plain table.
    #[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
    enum PlainPace {
        /// At rest.
        Still,
    }

    impl Choice for PlainPace {}

    /// Words of `pace` in a deep table.
    #[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
    enum DeepPace {
        /// At rest.
        Still,
        /// Moves.
        Fast,
    }

    impl Choice for DeepPace {}

    fn read(table: &mut TableReader<'_>) {
        table.get(&Param::new("top", 1_u32, "always"));
        table.table("inner", |inner| {
            let kind: ExampleKind = inner.get(&Param::new("kind", ExampleKind::Plain, "which"));
            if kind == ExampleKind::Deep {
                inner.optional_table("more", |more| {
                    more.get(&Param::new("far", 0.5, "deep down").above(0.0));
                });
                let pace = inner.get(&Param::new("pace", DeepPace::Still, "how it moves"));
                if pace == DeepPace::Fast {
                    inner.get(&Param::new("speed", 2.0, "how fast"));
                }
            } else {
                inner.get(&Param::new("pace", PlainPace::Still, "how it moves"));
            }
            if inner.given("size") {
                inner.get(&Param::new("size", 3_u32, "how large"));
                inner.get(&Param::new("scale", 3_u32, "beside a size"));
            }
        });
        table.tables("items", Vec::new(), |item| {
            item.get(&Param::required("label", "a".to_owned(), "its name"))
        });
    }

    /// Sections of scenarios do not decide about each other's keys.
    #[test]
    fn recording_only_tables_with_trial_values_misses_nothing() {
        let read = |table: &mut TableReader<'_>| Scenario::read(table, "", &AnyMethod);
        let [narrow, whole] = [true, false].map(|narrow| explored(read, narrow));
        assert_eq!(narrow.keys, whole.keys);
        assert_eq!(narrow.tables, whole.tables);
    }

    #[test]
    fn keys_behind_words_and_tables_are_found_with_what_they_need() {
        let catalogue = explore(read);
        let mut paths: Vec<&str> = catalogue.keys.iter().map(|key| &*key.doc.key).collect();
        paths.sort_unstable();
        let all = [
            "inner.kind",
            "inner.more.far",
            "inner.pace",
            "inner.scale",
            "inner.size",
            "inner.speed",
            "items.label",
            "top",
        ];
        assert_eq!(paths, all, "`speed` goes with a word that `pace` has in deep tables alone");
        let far = catalogue.keys.iter().find(|key| key.doc.key == "inner.more.far").unwrap();
        assert_eq!(far.with, [("inner.kind".to_owned(), vec!["deep".to_owned()])]);
        let speed = catalogue.keys.iter().find(|key| key.doc.key == "inner.speed").unwrap();
        assert_eq!(speed.with, [("inner.pace".to_owned(), vec!["fast".to_owned()])]);
        let tables: Vec<(&str, bool)> =
            catalogue.tables.iter().map(|table| (&*table.path, table.list)).collect();
        assert_eq!(tables, [("inner", false), ("items", true), ("inner.more", false)]);
    }
}
