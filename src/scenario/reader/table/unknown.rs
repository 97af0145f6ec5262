//! Errors for unknown keys, with suggestions.

use super::{DECIDES, TableReader};
use crate::scenario::migration::renamed_key;
use crate::scenario::reader::node::{Table, TomlEntry, TomlValue};
use crate::scenario::reader::readable::ValueFault;
use crate::scenario::reader::suggest::{alternatives, nearest};

impl TableReader<'_> {
    /// Reports every key that was not asked for.
    pub(super) fn refuse_unknown(&mut self) {
        let Some(table) = self.entries().filter(|_| !self.open) else { return };
        for (key, entry) in table.iter().filter(|(key, _)| !self.known.contains(&key.as_str())) {
            if let Some(renamed) = self.renamed(table, key) {
                self.report.fault(ValueFault {
                    span: entry.key,
                    message: format!("unknown key `{key}` in {}", self.title()),
                    label: "name of schema 1".into(),
                    help: Some(renamed),
                });
                continue;
            }
            let replace = self.replacement(table, entry);
            if let Some((_, other)) = self.foreign.iter().find(|(name, _)| name == key) {
                let help = replace.unwrap_or_else(|| format!("remove it, or change `{other}`"));
                self.report.fault(ValueFault {
                    span: entry.key,
                    message: format!("`{}` has no meaning with `{other}`", self.path_of(key)),
                    label: "no effect here".into(),
                    help: Some(help),
                });
                continue;
            }
            let all = self.known.iter().chain(self.foreign.iter().map(|(name, _)| name)).copied();
            let within = self.read.keys.iter().map(|doc| &*doc.key);
            let mut within =
                within.filter(|path| path.rsplit_once('.').is_some_and(|(_, k)| k == key));
            let placed = replace.is_some();
            let help = match nearest(key, all) {
                _ if replace.is_some() => replace.unwrap_or_default(),
                Some(word) => format!("did you mean `{word}`?"),
                None if let Some(path) = within.next() => {
                    format!("did you mean `{}`?", self.path_of(path))
                }
                None if self.known.is_empty() => "there are no keys here".to_owned(),
                None => {
                    let mut known = self.known.clone();
                    known.sort_unstable();
                    known.dedup();
                    format!("possible keys are {}", alternatives(known))
                }
            };
            let fault = ValueFault {
                span: entry.key,
                message: format!("unknown key `{key}` in {}", self.title()),
                label: "no such key".into(),
                help: Some(help),
            };
            match placed {
                true => self.report.fault(fault),
                false => self.report.stray(fault, key),
            }
        }
    }

    /// Returns the new name of a key of schema 1, as a sentence.
    fn renamed(&self, table: &Table, key: &str) -> Option<String> {
        let method = match table.get("name").map(|entry| &entry.node.value) {
            Some(TomlValue::String(name)) if self.path.starts_with("method") => Some(name.as_str()),
            _ => None,
        };
        renamed_key(&self.path_of(key), method)
    }

    /// Returns a correction if an override changed the kind of this table and left a key of the other kind.
    ///
    /// `None` if there is no such override.
    fn replacement(&self, table: &Table, left: &TomlEntry) -> Option<String> {
        let changed = |key: &&&str| {
            let kind = table.get(**key).filter(|kind| self.report.is_override(kind.node.span));
            kind.is_some() && !self.report.is_override(left.key)
        };
        let key = DECIDES.iter().find(changed)?;
        let value = table.get(*key)?.node.to_toml()?;
        let path = &self.path;
        Some(format!(
            "it belongs to another `{path}.{key}`; replace the whole table: --set '{path}={{{key}={value}}}'"
        ))
    }
}
