//! Replacement of old names in a text. Everything else stays as it is written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::names::{new_keys, new_value};
use super::places::{AxisText, FileForm, KeyPlace, dotted};
use super::table::ValueForm;
use super::tokens::{DocumentToken, PathPart, TokenContent, document_tokens};
use crate::scenario::overrides::key_path;

/// Old name in a text and its new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextEdit {
    /// Bytes of the old name, with quotes.
    pub span: Range<usize>,
    /// Text in their place.
    pub text: String,
    /// Old path of a key, or a key with its old value.
    pub old: String,
    /// New path, or the key with its new value.
    pub new: String,
    /// True if the new key stands in the same table already.
    pub is_taken: bool,
}

/// Returns the old names of a valid document, in the order of its text.
pub(super) fn old_names(text: &str, tokens: &[DocumentToken], form: &FileForm) -> Vec<TextEdit> {
    let index = TokenIndex::new(text, tokens, form);
    let edit = |token: &DocumentToken| match &token.content {
        TokenContent::Key => index.key_edit(token),
        TokenContent::Text(value) => index.value_edit(token, value),
        TokenContent::Plain(_) => None,
    };
    tokens.iter().filter_map(edit).collect()
}

/// Returns a text with its old names replaced.
pub(super) fn with_edits(text: &str, edits: &[TextEdit]) -> String {
    let (mut result, mut end) = (String::with_capacity(text.len()), 0);
    for edit in edits {
        result.push_str(&text[end..edit.span.start]);
        result.push_str(&edit.text);
        end = edit.span.end;
    }
    result.push_str(&text[end..]);
    result
}

/// Returns an override such as `client.batch=8` with its new names; none if it has no old ones.
///
/// An override is what follows `--set`.
pub fn new_override(text: &str) -> Option<String> {
    let renamed = |text: &str| {
        let edits = old_names(text, &document_tokens(text), &FileForm::Scenario);
        (!edits.is_empty()).then(|| with_edits(text, &edits))
    };
    if toml::de::DeTable::parse(text).is_ok() {
        return renamed(text);
    }
    // A bare word is a string.
    let (key, word) = text.split_once('=')?;
    let text = format!("{key}=\"{word}\"");
    toml::de::DeTable::parse(&text).ok()?;
    let new = renamed(&text)?;
    let (key, word) = new.split_once('=')?;
    Some(format!("{key}={}", word.trim_matches('"')))
}

/// Tokens of a text, with what the names of its keys depend on.
struct TokenIndex<'t> {
    text: &'t str,
    form: &'t FileForm,
    keys: BTreeSet<&'t [PathPart]>,
    /// Forms of values, of lists that of the first item.
    values: BTreeMap<&'t [PathPart], ValueForm>,
    /// Names of methods by the paths of `[method]` and `[method.first]`.
    methods: BTreeMap<(&'t [PathPart], bool), &'t str>,
}

impl<'t> TokenIndex<'t> {
    fn new(text: &'t str, tokens: &'t [DocumentToken], form: &'t FileForm) -> TokenIndex<'t> {
        let (keys, values, methods) = Default::default();
        let mut document = TokenIndex { text, form, keys, values, methods };
        for DocumentToken { path, content, .. } in tokens {
            let value = match content {
                TokenContent::Key => {
                    document.keys.insert(path);
                    continue;
                }
                TokenContent::Text(name) => {
                    let place = form.place(path);
                    let names = place.map(|KeyPlace { root, keys }| (root, keys.join(".")));
                    if let Some((root, path_of_name)) = names
                        && ["method.name", "method.first.name"].contains(&&*path_of_name)
                    {
                        let is_first = path_of_name != "method.name";
                        document.methods.insert((&path[..root], is_first), name);
                    }
                    ValueForm::Word
                }
                TokenContent::Plain(_) => ValueForm::Number,
            };
            let items = path.iter().rev().take_while(|part| matches!(part, PathPart::Item(_)));
            document.values.entry(&path[..path.len() - items.count()]).or_insert(value);
        }
        document
    }

    /// Returns the name of the method whose key this is, as far as the document says it.
    fn method(&self, path: &[PathPart], place: &KeyPlace) -> Option<&str> {
        let is_first = place.keys.get(1).is_some_and(|key| key == "first") && place.keys.len() > 2;
        self.methods.get(&(&path[..place.root], is_first)).copied()
    }

    fn key_edit(&self, token: &DocumentToken) -> Option<TextEdit> {
        let (path, place) = (&token.path[..], self.form.place(&token.path)?);
        let (Some(PathPart::Key(key)), around) = (path.last(), &path[..path.len() - 1]) else {
            return None;
        };
        let own = if place.root > 0 { dotted(key).len() } else { 1 };
        let form = self.values.get(path).copied();
        let new = new_keys(&place.keys, self.method(path, &place), form);
        let behind = place.keys.len() - own;
        if new[behind..] == place.keys[behind..] {
            return None;
        }
        let name = new[behind..].join(".");
        let taken = [around, &[PathPart::Key(name.clone())]].concat();
        Some(TextEdit {
            span: token.span.clone(),
            text: self.as_written(token, &name),
            old: place.keys.join("."),
            new: new.join("."),
            is_taken: self.keys.contains(&taken[..]),
        })
    }

    fn value_edit(&self, token: &DocumentToken, value: &str) -> Option<TextEdit> {
        let path = &token.path[..];
        match self.form.axis_text(path) {
            Some(AxisText::Key) => {
                let values = [&path[..path.len() - 1], &[PathPart::Key("values".into())]].concat();
                let keys = key_path(value)?;
                let new = new_keys(&keys, None, self.values.get(&values[..]).copied());
                let edit = self.edit(token, value.to_owned(), new.join("."), &new.join("."));
                return (new != keys).then_some(edit);
            }
            Some(AxisText::Value(keys)) => {
                let new = new_value(keys, value, None)?;
                let shown =
                    |word: &str| format!("{} = \"{word}\"", new_keys(keys, None, None).join("."));
                return Some(self.edit(token, shown(value), shown(new), new));
            }
            None => {}
        }
        let place = self.form.place(path)?;
        let key = place.keys.join(".");
        if key == "expected.overrides" {
            let new = new_override(value)?;
            return Some(self.edit(token, value.to_owned(), new.clone(), &new));
        }
        let method = self.method(path, &place);
        let word = |word: &str| new_value(&place.keys, word, method).map(str::to_owned);
        let new = match value.strip_prefix("pareto:").filter(|_| key == "report.plots") {
            // A metric may itself contain a colon: `pareto:figure:slots:faa`.
            Some(both) => both.match_indices(':').find_map(|(at, _)| {
                let metrics = [&both[..at], &both[at + 1..]];
                let new = metrics.map(word);
                new.iter().any(Option::is_some).then(|| {
                    let [x, y] = [0, 1].map(|i| new[i].as_deref().unwrap_or(metrics[i]));
                    format!("pareto:{x}:{y}")
                })
            })?,
            None => word(value)?,
        };
        let new_key = new_keys(&place.keys, method, Some(ValueForm::Word)).join(".");
        let shown = |word: &str| format!("{new_key} = \"{word}\"");
        Some(self.edit(token, shown(value), shown(&new), &new))
    }

    fn edit(&self, token: &DocumentToken, old: String, new: String, text: &str) -> TextEdit {
        let text = self.as_written(token, text);
        TextEdit { span: token.span.clone(), text, old, new, is_taken: false }
    }

    /// Returns a new name in the quotes of the old one.
    fn as_written(&self, token: &DocumentToken, name: &str) -> String {
        match self.text[token.span.clone()].chars().next() {
            Some('\'') => format!("'{name}'"),
            Some('"') => toml::Value::from(name).to_string(),
            _ => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_renamed_as_they_are_typed() {
        for (old, new) in [
            ("client.batch=8", "client.batch_size=8"),
            ("tasks.arrival=powder", "tasks.arrival=client-tasks"),
            (
                "method={name='hgp',memory=\"task\"}",
                "method={name='hgp',gaussian_lifetime=\"task\"}",
            ),
            ("method.memory=task", "method.gaussian_lifetime=task"),
            ("method.memory=7", "method.memory_clients=7"),
            ("federation.fold=median", "federation.aggregation=median"),
        ] {
            assert_eq!(new_override(old).as_deref(), Some(new), "{old}");
        }
        for same in ["client.epochs=8", "method.components=8", "client.batch", "a=b\"c", ""] {
            assert_eq!(new_override(same), None, "{same}");
        }
    }
}
