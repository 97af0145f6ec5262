//! `--set a.b=value`: one key of a scenario, changed from outside the file.
//!
//! The value is TOML; a bare word is a string. Relative paths mean the folder the program was
//! started in, as everywhere on a command line.

use toml::de::DeTable;

use super::reader::{Entry, Node, Report, Source, Span, Table, Value};

/// The text after `--set`, such as `federation.clients=200`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override(String);

impl Override {
    /// From the command line; what is wrong with it is found when a scenario is loaded.
    pub fn new(text: impl Into<String>) -> Override {
        Override(text.into())
    }

    /// As it was typed.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Puts the value into `root`, over what was there.
    pub(super) fn apply(&self, root: &mut Node, report: &mut Report) {
        let index = report.add(Source::new("--set", &self.0));
        let refuse = |report: &mut Report, start: usize, end: usize, message: &str, label: &str| {
            let help = "write --set table.key=value, such as --set federation.clients=200";
            let span =
                Node { value: Value::Boolean(false), span: Span { source: index, start, end } };
            report.fault(super::reader::Fault::new(&span, message, label).help(help));
        };
        let Some(equals) = self.0.find('=') else {
            return refuse(report, 0, self.0.len().max(1), "an override needs a `=`", "no value");
        };
        let (key, value) = (&self.0[..equals], &self.0[equals + 1..]);
        let Some(path) = key_path(key) else {
            return refuse(report, 0, equals.max(1), "this is not a key", "expected a.b.c");
        };
        if value.trim().is_empty() {
            return refuse(
                report,
                equals,
                equals + 1,
                "an override needs a value",
                "nothing after it",
            );
        }
        let start = equals + 1 + (value.len() - value.trim_start().len());
        let end = start + value.trim().len();
        let parsed = toml::de::DeValue::parse(value.trim());
        let node = match parsed {
            Ok(parsed) => Node::new(index, parsed.get_ref(), parsed.span()).shifted(start),
            // Not TOML, and not the beginning of something in TOML: a bare word.
            Err(_) if !value.trim_start().starts_with(['"', '\'', '[', '{']) => Node {
                value: Value::String(value.trim().to_owned()),
                span: Span { source: index, start, end },
            },
            Err(error) => {
                let message = format!("this is not TOML: {}", error.message());
                return refuse(report, start, end, &message, "here");
            }
        };
        let key_span = Span { source: index, start: 0, end: equals };
        place(root, &path, Entry { key: key_span, node });
    }
}

/// `a."b c".d` as its parts.
pub(super) fn key_path(key: &str) -> Option<Vec<String>> {
    let text = format!("{key} = 0");
    let document = DeTable::parse(&text).ok()?;
    let mut table = document.get_ref();
    let mut path = Vec::new();
    loop {
        let (name, value) = table.iter().next().filter(|_| table.len() == 1)?;
        path.push(name.get_ref().to_string());
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => return Some(path),
        }
    }
}

/// Puts an entry at a path, making tables on the way.
pub(super) fn place(node: &mut Node, path: &[String], entry: Entry) {
    let Some((first, rest)) = path.split_first() else { return };
    if node.as_table().is_none() {
        node.value = Value::Table(Table::new());
        node.span = entry.key;
    }
    let Value::Table(table) = &mut node.value else { return };
    if rest.is_empty() {
        table.insert(first.clone(), entry);
        return;
    }
    let fresh = || Entry {
        key: entry.key,
        node: Node { value: Value::Table(Table::new()), span: entry.key },
    };
    place(&mut table.entry(first.clone()).or_insert_with(fresh).node, rest, entry);
}
