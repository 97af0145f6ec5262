//! `--set a.b=value`: change of one key of a scenario from outside the file.
//!
//! The value is TOML; a bare word is a string. Relative paths are relative to the current folder, as everywhere on a
//! command line.

use toml::de::{DeTable, DeValue};

use super::extends::drop_alternative;
use super::reader::{
    Node, ReadingReport, SourceText, Table, TextSpan, TomlEntry, TomlValue, ValueFault, requoted,
};

/// Text after `--set`, such as `federation.clients=200`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override(String);

impl Override {
    /// Creates an override from the command line. Its errors are found when a scenario is loaded.
    pub fn new(text: impl Into<String>) -> Override {
        Override(text.into())
    }

    /// Returns the text as typed.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Sets the value in `root`.
    pub(super) fn apply(&self, root: &mut Node, report: &mut ReadingReport) {
        let index = report.add(SourceText::override_of(&self.0));
        let advise = |report: &mut ReadingReport,
                      place: (usize, usize),
                      message: &str,
                      label: &str,
                      help: &str| {
            let span = TextSpan { source: index, start: place.0, end: place.1 };
            let node = Node { value: TomlValue::Boolean(false), span };
            report.fault(ValueFault::new(&node, message, label).help(help));
        };
        let refuse =
            |report: &mut ReadingReport, start: usize, end: usize, message: &str, label: &str| {
                let help = "write --set table.key=value, such as --set federation.clients=200";
                advise(report, (start, end), message, label, help);
            };
        let Some(equals) = self.0.find('=') else {
            let help = format!("write it without spaces: --set {}=VALUE", self.0);
            let end = self.0.len().max(1);
            return advise(report, (0, end), "an override needs a `=`", "no value", &help);
        };
        let (key, value) = (&self.0[..equals], &self.0[equals + 1..]);
        let Some(path) = key_path(key) else {
            return refuse(report, 0, equals.max(1), "this is not a key", "not a dotted key");
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
        let value = value.trim();
        let end = start + value.len();
        let node = match DeValue::parse(value) {
            Ok(parsed) => Node::new(index, parsed.get_ref(), parsed.span()).shifted(start),
            Err(_) if is_assignment(value) => {
                let whole = requoted(&format!("{{{value}, ...}}"));
                let help = format!("quote the braces for the shell: --set '{key}={whole}'");
                let message = format!("`{value}` is not a value: it contains `=`");
                return advise(report, (start, end), &message, "a second `=`", &help);
            }
            // Not TOML, and not the beginning of something in TOML: a bare word.
            Err(_) if !value.starts_with(['"', '\'', '[', '{']) => Node {
                value: TomlValue::String(value.to_owned()),
                span: TextSpan { source: index, start, end },
            },
            Err(_) if DeValue::parse(&requoted(value)).is_ok() => {
                let help = format!(
                    "a shell takes quotes away; write --set '{key}={}' in single quotes",
                    requoted(value)
                );
                let message = "words inside braces and brackets stand in quotes";
                return advise(report, (start, end), message, "no quotes", &help);
            }
            Err(error) => {
                let message = format!("this is not TOML: {}", error.message());
                return refuse(report, start, end, &message, "here");
            }
        };
        let key_span = TextSpan { source: index, start: 0, end: equals };
        place(root, &path, TomlEntry { key: key_span, node });
    }
}

/// Returns true if a value is an assignment itself, such as `{name="stsa",width=256}` without quotes.
fn is_assignment(value: &str) -> bool {
    let bare = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    value.split_once('=').is_some_and(|(key, _)| !key.is_empty() && key.chars().all(bare))
}

/// Splits `a."b c".d` into its parts.
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

/// Puts an entry at a path, creating tables as needed. It replaces a key that says the same in another way.
pub(super) fn place(node: &mut Node, path: &[String], entry: TomlEntry) {
    let Some((first, rest)) = path.split_first() else { return };
    if node.as_table().is_none() {
        node.value = TomlValue::Table(Table::new());
        node.span = entry.key;
    }
    let TomlValue::Table(table) = &mut node.value else { return };
    if rest.is_empty() {
        drop_alternative(table, first);
        table.insert(first.clone(), entry);
        return;
    }
    let fresh = || TomlEntry {
        key: entry.key,
        node: Node { value: TomlValue::Table(Table::new()), span: entry.key },
    };
    place(&mut table.entry(first.clone()).or_insert_with(fresh).node, rest, entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, overrides: &[&str]) -> toml::Value {
        let mut report = ReadingReport::default();
        let mut root = report.parse(SourceText::new("text", text));
        for text in overrides {
            Override::new(*text).apply(&mut root, &mut report);
        }
        assert!(report.is_clean(), "{overrides:?}");
        root.to_toml().unwrap()
    }

    #[test]
    fn an_override_replaces_what_says_the_same_in_another_way() {
        let expected = |text: &str| text.parse::<toml::Table>().unwrap().into();
        assert_eq!(
            after(
                "[participation]\ncount = 5\ndraw_every = \"task\"",
                &["participation.fraction=0.1"]
            ),
            expected("participation = { fraction = 0.1, draw_every = \"task\" }")
        );
        let both = ["tasks.sizes=[2, 3]", "tasks.count=4"];
        assert_eq!(after("tasks.count = 5", &both[..1]), expected("tasks.sizes = [2, 3]"));
        assert_eq!(after("tasks.count = 5", &both), expected("tasks.count = 4"));
        assert_eq!(
            after("[federation.dummy_clients]\ncount = 2", &["federation.rounds=1"]),
            expected("federation = { dummy_clients = { count = 2 }, rounds = 1 }")
        );
    }
}
