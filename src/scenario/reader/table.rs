//! Reader of one table, key by key.

mod recorded;
mod rest;
mod short;
mod unknown;

use std::cell::RefCell;

use super::explore::TableDoc;
use super::node::{Node, Table, TomlValue};
use super::param::{KeyDoc, KeySpec, Param};
use super::readable::{Readable, ValueFault};
use super::report::ReadingReport;
use super::suggest::{alternatives, nearest};
use crate::scenario::migration::renamed_word;
pub(super) use recorded::Recorded;
use recorded::TablePlace;
use short::leading_key;

/// Keys that decide the kind of a table, and so which other keys it has.
pub(in crate::scenario) const DECIDES: [&str; 4] = ["kind", "name", "source", "dist"];

/// Reader of the keys of one table.
///
/// An invalid value is reported and read as its default, so that one reading finds every error. A key that was not
/// asked for is an error, too.
#[derive(Debug)]
pub struct TableReader<'a> {
    node: &'a Node,
    path: String,
    report: &'a mut ReadingReport,
    known: Vec<&'static str>,
    /// Keys that exist but are not valid here, and the reason.
    foreign: Vec<(&'static str, String)>,
    open: bool,
    /// Keys whose presence a reader asked for.
    probed: RefCell<Vec<String>>,
    /// Name of the outermost table in errors.
    document: &'static str,
    recorded: Recorded<'a>,
    read: Readout,
}

/// Results of a reading in addition to its value.
#[derive(Debug, Default)]
pub(in crate::scenario) struct Readout {
    /// Every key with its value or default.
    pub effective: toml::Table,
    /// Every key that was asked for.
    pub keys: Vec<KeyDoc>,
    /// Every table that was asked for.
    pub tables: Vec<TableDoc>,
    /// Paths whose presence was asked for.
    pub probed: Vec<String>,
    /// Marks a table whose keys are names chosen by the user.
    pub open: bool,
}

impl<'a> TableReader<'a> {
    /// Reads a whole document.
    pub(in crate::scenario) fn of<C>(
        node: &Node,
        report: &mut ReadingReport,
        read: impl FnOnce(&mut TableReader<'_>) -> C,
    ) -> (C, Readout) {
        TableReader::document(node, "the scenario", report, read)
    }

    /// Reads a whole document that is not a scenario.
    pub(in crate::scenario) fn document<C>(
        node: &Node,
        document: &'static str,
        report: &mut ReadingReport,
        read: impl FnOnce(&mut TableReader<'_>) -> C,
    ) -> (C, Readout) {
        let place = (document, String::new(), Recorded::All);
        let (value, readout) = TableReader::nested(node, place, report, read);
        report.place_strays(&readout.keys);
        (value, readout)
    }

    /// Reads a trial document for the keys that it makes a reader ask for.
    pub(super) fn tried<C>(
        node: &Node,
        recorded: Recorded<'_>,
        read: impl FnOnce(&mut TableReader<'_>) -> C,
    ) -> Readout {
        let place = ("the scenario", String::new(), recorded);
        TableReader::nested(node, place, &mut ReadingReport::default(), read).1
    }

    fn nested<C>(
        node: &Node,
        place: TablePlace<'_>,
        report: &mut ReadingReport,
        read: impl FnOnce(&mut TableReader<'_>) -> C,
    ) -> (C, Readout) {
        let mut reader = TableReader::begin(node, place, report);
        let value = read(&mut reader);
        (value, reader.finish())
    }

    fn begin(
        node: &'a Node,
        (document, path, recorded): TablePlace<'a>,
        report: &'a mut ReadingReport,
    ) -> TableReader<'a> {
        TableReader {
            node,
            path,
            report,
            known: Vec::new(),
            foreign: Vec::new(),
            open: false,
            probed: RefCell::default(),
            document,
            recorded,
            read: Readout::default(),
        }
    }

    fn finish(mut self) -> Readout {
        self.refuse_unknown();
        self.read.probed.append(self.probed.get_mut());
        self.read
    }

    /// Returns the value of a key, or its default; after an error the default or the example.
    ///
    /// # Panics
    /// Panics if the description has neither; use [`optional`](Self::optional) for such keys.
    pub fn get<T: Readable>(&mut self, param: &Param<T>) -> T {
        let value = self.require(param).or_else(|| param.value.clone());
        let value = value.expect("a key read by `get` has a default or an example");
        self.record(param.spec.name, value.to_toml());
        value
    }

    /// Returns the value like [`get`](Self::get), or `None` after an error, for keys that others depend on.
    pub fn require<T: Readable>(&mut self, param: &Param<T>) -> Option<T> {
        let read = self.optional(param);
        if read.is_none() && self.lacks(&param.spec) {
            self.report_lack(&param.spec, param.value.as_ref().map(T::to_toml));
        }
        read
    }

    /// Returns the value of an optional key.
    pub fn optional<T: Readable>(&mut self, param: &Param<T>) -> Option<T> {
        self.known.push(param.spec.name);
        if !matches!(self.recorded, Recorded::Nothing) {
            self.read.keys.push(param.describe());
        }
        let node = self.value_of(param.spec.name)?;
        let read = T::read(node).and_then(|value| {
            self.within_bounds(&param.spec, node, &value.numbers())?;
            Ok(value)
        });
        match read {
            Ok(value) => {
                self.record(param.spec.name, value.to_toml());
                Some(value)
            }
            Err(fault) => {
                self.refuse(param.spec.name, node, fault);
                None
            }
        }
    }

    fn lacks(&self, key: &KeySpec) -> bool {
        key.required && !self.given(key.name)
    }

    fn report_lack(&mut self, key: &KeySpec, example: Option<toml::Value>) {
        self.report.fault(ValueFault {
            span: self.node.span,
            message: format!("{} lacks the key `{}`: {}", self.title(), key.name, key.doc),
            label: format!("no `{}` here", key.name),
            help: example.map(|value| format!("add, for example, `{} = {value}`", key.name)),
        });
    }

    /// Keeps a value for the effective scenario.
    fn record(&mut self, name: &str, value: toml::Value) {
        self.read.effective.insert(name.to_owned(), value);
    }

    /// Checks the numbers of a value.
    fn within_bounds(&self, key: &KeySpec, node: &Node, numbers: &[f64]) -> Result<(), ValueFault> {
        if !key.is_finite(numbers) {
            return Err(ValueFault::new(node, "{key} must be finite", "endless"));
        }
        if !key.bounds.admits(numbers) {
            let range = key.bounds.range().unwrap_or_default();
            return Err(ValueFault::new(node, format!("{{key}} must be {range}"), "out of range"));
        }
        Ok(())
    }

    /// Reports the reason why a value cannot be read.
    fn refuse(&mut self, name: &str, node: &Node, mut fault: ValueFault) {
        let path = self.path_of(name);
        fault.message = fault.message.replace("{key}", &format!("`{path}`"));
        if let TomlValue::String(word) = &node.value {
            fault.help = renamed_word(&path, word).or(fault.help);
        }
        self.report.fault(fault);
    }

    /// Reads a table inside this one; if it is absent, `read` gets an empty one.
    pub fn table<C>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut TableReader<'_>) -> C,
    ) -> C {
        self.known.push(name);
        let absent = Node { span: self.node.span, ..Node::empty_table() };
        let (written, place) = (self.value_of(name), self.place_of(name));
        let table = written.filter(|node| node.as_table().is_some());
        // The keys of a value that is no table cannot be read; errors about them would only repeat that.
        let mut unsaid = ReadingReport::default();
        let report = match written.is_some() && table.is_none() {
            true => &mut unsaid,
            false => &mut *self.report,
        };
        let (value, readout) = TableReader::nested(table.unwrap_or(&absent), place, report, read);
        if let (Some(node), None) = (written, table) {
            self.refuse_no_table(name, node, &readout.keys);
        }
        self.keep(name, readout);
        value
    }

    /// Reports a value that should be a table with these keys.
    fn refuse_no_table(&mut self, name: &str, node: &Node, keys: &[KeyDoc]) {
        let path = self.path_of(name);
        let mut fault = ValueFault::wrong_type(node, "a table");
        fault.message = format!("`{path}` must be a table");
        let below = format!("write `[{path}]` and its keys below it");
        self.report.fault(fault.help(match leading_key(node, keys) {
            Some(key) => format!("did you mean `{path}.{key}`? Or {below}"),
            None => below,
        }));
    }

    /// Reads a list of tables, `[[name]]`; returns `absent` if it is not written.
    pub fn tables<C: Clone>(
        &mut self,
        name: &'static str,
        absent: Vec<C>,
        mut read: impl FnMut(&mut TableReader<'_>) -> C,
    ) -> Vec<C> {
        self.known.push(name);
        let path = self.path_of(name);
        let (_, readout) = TableReader::nested(
            &Node::empty_table(),
            self.place_of(name),
            &mut ReadingReport::default(),
            &mut read,
        );
        self.know(name, true, readout);
        let Some(node) = self.value_of(name) else { return absent };
        let items = match &node.value {
            TomlValue::Array(items) => items,
            _ => {
                let mut fault = ValueFault::wrong_type(node, "a list of tables");
                fault.message = format!("`{path}` must be a list of tables");
                let help = format!("write `[[{path}]]` and the keys of one entry below it");
                self.report.fault(fault.help(help));
                return absent;
            }
        };
        let mut entries = Vec::with_capacity(items.len());
        for item in items {
            if item.as_table().is_none() {
                let mut fault = ValueFault::wrong_type(item, "a table");
                fault.message = format!("every entry of `{path}` must be a table");
                self.report.fault(fault);
                continue;
            }
            let place = self.place_of(name);
            let (entry, readout) = TableReader::nested(item, place, self.report, &mut read);
            self.know(name, true, readout);
            entries.push(entry);
        }
        entries
    }

    /// Reads an optional table inside this one.
    pub fn optional_table<C>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut TableReader<'_>) -> C,
    ) -> Option<C> {
        self.known.push(name);
        if !self.given(name) {
            self.know(name, false, Readout::default());
            return None;
        }
        Some(self.table(name, read))
    }

    /// Reads a required table; if it is absent, that is the only error.
    pub fn required_table<C>(
        &mut self,
        name: &'static str,
        example: &str,
        read: impl FnOnce(&mut TableReader<'_>) -> C,
    ) -> C {
        if self.given(name) {
            return self.table(name, read);
        }
        self.known.push(name);
        let path = self.path_of(name);
        self.report.fault(ValueFault {
            span: self.node.span,
            message: format!("{} lacks the table [{path}]", self.title()),
            label: format!("no [{path}] here"),
            help: Some(format!("add `[{path}]` with, for example, `{example}`")),
        });
        let (value, readout) = TableReader::nested(
            &Node::empty_table(),
            self.place_of(name),
            &mut ReadingReport::default(),
            read,
        );
        self.keep(name, readout);
        value
    }

    fn keep(&mut self, name: &'static str, mut readout: Readout) {
        let effective = std::mem::take(&mut readout.effective);
        self.read.effective.insert(name.to_owned(), effective.into());
        self.know(name, false, readout);
    }

    /// Records what was asked for in a table inside this one.
    fn know(&mut self, name: &str, list: bool, readout: Readout) {
        if matches!(self.recorded.below(name), Recorded::Nothing) {
            return;
        }
        let Readout { keys, tables, probed, open, .. } = readout;
        let below = |path: &str| format!("{name}.{path}");
        self.read.probed.extend(probed.iter().map(|path| below(path)));
        self.read.tables.push(TableDoc { path: name.to_owned(), list, open });
        let tables = tables.into_iter().map(|table| TableDoc { path: below(&table.path), ..table });
        self.read.tables.extend(tables);
        self.read.keys.extend(keys.into_iter().map(|doc| KeyDoc { key: below(&doc.key), ..doc }));
    }

    /// Reads the required key `name`: one of `known`, or any value if `known` is empty.
    pub(in crate::scenario) fn name_of(&mut self, known: &[String]) -> Option<String> {
        let doc = "the method; `fedcast methods` lists them";
        let example = known.first().map_or("hgp", String::as_str).to_owned();
        let name = self.require(&Param::required("name", example, doc));
        if let Some(key) = self.read.keys.last_mut() {
            key.choices = known.iter().map(|name| (name.clone(), String::new())).collect();
        }
        let name = name?;
        if known.is_empty() || known.contains(&name) {
            return Some(name);
        }
        let help = match nearest(&name, known.iter().map(String::as_str)) {
            Some(word) => format!("did you mean \"{word}\"?"),
            None => format!("there are {}", alternatives(known.iter().map(String::as_str))),
        };
        self.reject("name", &format!("there is no method `{name}`"), "unknown method", &help);
        None
    }

    /// Returns true if the key is written.
    pub fn given(&self, name: &str) -> bool {
        self.probed.borrow_mut().push(name.to_owned());
        self.entries().is_some_and(|table| table.contains_key(name))
    }

    /// Returns true if the key is written and holds a table.
    pub fn given_table(&self, name: &str) -> bool {
        self.probed.borrow_mut().push(name.to_owned());
        self.value_of(name).is_some_and(|node| node.as_table().is_some())
    }

    /// Returns true if the key is written and holds a string.
    pub fn given_string(&self, name: &str) -> bool {
        self.probed.borrow_mut().push(name.to_owned());
        self.value_of(name).is_some_and(|node| matches!(node.value, TomlValue::String(_)))
    }

    /// Marks keys that are not valid with the rest of this table, such as `kind = "iid"`.
    ///
    /// If they are written, the error says so.
    pub fn foreign(&mut self, names: &[&'static str], condition: &str) {
        for name in names.iter().filter(|name| !self.known.contains(*name)) {
            self.foreign.push((*name, condition.to_owned()));
        }
    }

    /// Marks a key whose error is already reported: it is not reported as unknown, nor looked into.
    pub fn reported(&mut self, name: &'static str) {
        self.known.push(name);
    }

    /// Reports an impossible value or combination.
    ///
    /// The caret is under the value of `name` or, if that is not written, under the head of the table.
    pub fn reject(&mut self, name: &str, message: &str, label: &str, help: &str) {
        let written = self.value_of(name).map(|node| node.span);
        self.report.fault(ValueFault {
            span: written.unwrap_or(self.node.span),
            message: message.to_owned(),
            label: label.to_owned(),
            help: Some(help.to_owned()),
        });
    }

    /// Reports an error like [`reject`](Self::reject), with the caret under one item of the list `name`.
    pub fn reject_item(
        &mut self,
        name: &str,
        index: usize,
        message: &str,
        label: &str,
        help: &str,
    ) {
        let item = self.value_of(name).and_then(|list| match &list.value {
            TomlValue::Array(items) => items.get(index),
            _ => None,
        });
        match item {
            Some(item) => {
                self.report.fault(ValueFault::new(item, message, label).help(help));
            }
            None => self.reject(name, message, label, help),
        }
    }

    /// Reports an error like [`reject`](Self::reject), at a dotted path or the nearest table around it.
    pub fn reject_at(&mut self, path: &str, message: &str, label: &str, help: &str) {
        self.report.fault(ValueFault::new(self.node.nearest(path), message, label).help(help));
    }

    /// Returns the keys of the table as written, in alphabetical order.
    pub fn written(&self) -> Vec<String> {
        self.entries().map(|table| table.keys().cloned().collect()).unwrap_or_default()
    }

    /// Returns the values read so far, with defaults.
    pub(in crate::scenario) fn effective(&self) -> &toml::Table {
        &self.read.effective
    }

    fn entries(&self) -> Option<&'a Table> {
        self.node.as_table()
    }

    fn value_of(&self, name: &str) -> Option<&'a Node> {
        self.entries()?.get(name).map(|entry| &entry.node)
    }

    fn path_of(&self, name: &str) -> String {
        match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.path),
        }
    }

    fn place_of(&self, name: &str) -> TablePlace<'a> {
        (self.document, self.path_of(name), self.recorded.below(name))
    }

    fn title(&self) -> String {
        match self.path.is_empty() {
            true => self.document.to_owned(),
            false => format!("[{}]", self.path),
        }
    }
}
