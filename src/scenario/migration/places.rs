//! Places of scenario keys in scenario and study files.

use std::collections::BTreeMap;

use super::tokens::{DocumentToken, PathPart, TokenContent};
use crate::scenario::overrides::key_path;

/// Layout of a file.
pub(super) enum FileForm {
    /// Scenario, or the base of one.
    Scenario,
    /// Study, with the keys that its axes set, by the names of these axes.
    Study(BTreeMap<String, Vec<String>>),
}

/// Place of a key, or of the value of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyPlace {
    /// Length of the path of the table that stands for a scenario.
    pub root: usize,
    /// Keys from there.
    pub keys: Vec<String>,
}

/// Kind of a value that names an arm of an axis.
pub(super) enum AxisText<'f> {
    /// Key that the axis sets.
    Key,
    /// Value of this key.
    Value(&'f [String]),
}

impl FileForm {
    /// Returns the layout of a document. Studies have a `base` or a list of cells.
    pub fn of(tokens: &[DocumentToken]) -> FileForm {
        let is_of_study = |token: &DocumentToken| {
            is_path(&token.path, &["base"])
                || matches!(&token.path[..], [PathPart::Key(key), PathPart::Item(_), ..] if key == "cell")
        };
        if !tokens.iter().any(is_of_study) {
            return FileForm::Scenario;
        }
        let axis = |token: &DocumentToken| {
            let [PathPart::Key(axes), PathPart::Key(name), PathPart::Key(key)] = &token.path[..]
            else {
                return None;
            };
            let TokenContent::Text(text) = &token.content else { return None };
            let keys = key_path(text).filter(|_| axes == "axes" && key == "key")?;
            Some((name.clone(), keys))
        };
        FileForm::Study(tokens.iter().filter_map(axis).collect())
    }

    /// Returns the place of a token; none where names are the writer's own.
    pub fn place(&self, path: &[PathPart]) -> Option<KeyPlace> {
        let root = match self {
            FileForm::Scenario => 0,
            FileForm::Study(axes) => study_root(path, axes)?,
        };
        let mut keys = Vec::new();
        for part in &path[root..] {
            match part {
                PathPart::Key(key) if root > 0 => keys.extend(dotted(key)),
                PathPart::Key(key) => keys.push(key.clone()),
                PathPart::Item(_) => {}
            }
        }
        (!keys.is_empty()).then_some(KeyPlace { root, keys })
    }

    /// Returns the kind of a value that belongs to an axis with a key.
    pub fn axis_text(&self, path: &[PathPart]) -> Option<AxisText<'_>> {
        let FileForm::Study(axes) = self else { return None };
        let (name, is_key) = match path {
            [PathPart::Key(table), PathPart::Key(name), PathPart::Key(key)] => match &**table {
                "axes" => (name, key == "key"),
                "compare" if ["against", "baseline"].contains(&&**name) => (key, false),
                _ => return None,
            },
            [PathPart::Key(table), PathPart::Key(name), PathPart::Key(key), PathPart::Item(_)]
                if table == "axes" && key == "values" =>
            {
                (name, false)
            }
            [PathPart::Key(table), PathPart::Item(_), PathPart::Key(name)]
                if table == "exclude" || table == "cell" =>
            {
                (name, false)
            }
            _ => return None,
        };
        let keys = axes.get(name)?;
        Some(if is_key { AxisText::Key } else { AxisText::Value(keys) })
    }
}

/// Returns the length of the path of the set of changes around a place, 0 for the study's own keys.
fn study_root(path: &[PathPart], axes: &BTreeMap<String, Vec<String>>) -> Option<usize> {
    let [PathPart::Key(table), inner @ ..] = path else { return None };
    match (&**table, inner) {
        ("set", _) => Some(1),
        ("extra" | "cell", [PathPart::Item(_), PathPart::Key(set), ..]) if set == "set" => Some(3),
        ("axes", [PathPart::Key(name), PathPart::Key(_), ..]) if !axes.contains_key(name) => {
            Some(3)
        }
        ("extra" | "cell" | "axes" | "exclude", _) => None,
        _ => Some(0),
    }
}

/// Returns the keys that a quoted key with dots stands for in a set of changes.
pub(super) fn dotted(key: &str) -> Vec<String> {
    let keys = key_path(key).filter(|keys| keys.len() > 1);
    keys.unwrap_or_else(|| vec![key.to_owned()])
}

/// Returns true if a path consists of these keys.
pub(super) fn is_path(path: &[PathPart], keys: &[&str]) -> bool {
    let is_key =
        |(part, key): (&PathPart, &&str)| matches!(part, PathPart::Key(name) if name == key);
    path.len() == keys.len() && path.iter().zip(keys).all(is_key)
}

#[cfg(test)]
mod tests {
    use super::super::tokens::document_tokens;
    use super::*;

    /// Places of all keys of a document, with dots.
    fn places(text: &str) -> Vec<String> {
        let tokens = document_tokens(text);
        let form = FileForm::of(&tokens);
        let keys = tokens.iter().filter(|token| token.content == TokenContent::Key);
        let places = keys.filter_map(|token| form.place(&token.path));
        places.map(|KeyPlace { root, keys }| format!("{root}:{}", keys.join("."))).collect()
    }

    #[test]
    fn scenarios_have_their_keys_at_the_top() {
        assert_eq!(places("[[faults]]\nshare = 0.1"), ["0:faults", "0:faults.share"]);
        assert_eq!(places("set.batch = 1"), ["0:set", "0:set.batch"]);
    }

    #[test]
    fn studies_have_them_in_sets_of_changes() {
        let text = "base = 'a.toml'\nset = { \"client.batch\" = 1 }\n[axes]\n\
                    batch = { key = 'client.batch', values = [1] }\nunit.load = { tasks.lead = 1 }\n\
                    [[extra]]\nlabel = 'x'\nset.client = { batch = 2 }\n[run]\ndirect = true\n";
        let wanted = [
            "0:base",
            "1:client.batch",
            "3:tasks",
            "3:tasks.lead",
            "3:client",
            "3:client.batch",
            "0:run",
            "0:run.direct",
        ];
        assert_eq!(places(text), wanted);
    }
}
