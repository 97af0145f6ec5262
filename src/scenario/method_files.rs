//! Files that keys of `[method]` name: their paths, and their contents in the hash.

use std::path::{Path, PathBuf};

use super::load::absolute;
use super::reader::{Node, TomlValue};

/// Methods with their keys that name a file, and words that such a key has instead of a file.
const KEYS: [(&str, &str, &[&str]); 1] = [("lander", "embeddings", &["orthogonal"])];

/// Table of the first of two methods, whose keys may name files, too.
const FIRST: &str = "first";

/// Returns true if the value of a key of a method is a path.
fn is_path(method: Option<&str>, key: &str, value: &str) -> bool {
    KEYS.iter()
        .any(|(of, own, words)| method == Some(*of) && *own == key && !words.contains(&value))
}

/// Makes the paths of `[method]` absolute, before the method reads them.
///
/// `folder_of` gives the folder at which the paths of a source start.
pub(super) fn resolve(root: &mut Node, folder_of: impl Fn(usize) -> PathBuf) {
    let TomlValue::Table(sections) = &mut root.value else { return };
    if let Some(entry) = sections.get_mut("method") {
        resolve_in(&mut entry.node, &folder_of);
    }
}

fn resolve_in(method: &mut Node, folder_of: &impl Fn(usize) -> PathBuf) {
    let TomlValue::Table(method) = &mut method.value else { return };
    let name = match method.get("name").map(|entry| &entry.node.value) {
        Some(TomlValue::String(name)) => Some(name.to_string()),
        _ => None,
    };
    for (key, entry) in method {
        if &**key == FIRST {
            resolve_in(&mut entry.node, folder_of);
        }
        let TomlValue::String(value) = &mut entry.node.value else { continue };
        if !is_path(name.as_deref(), key, value) {
            continue;
        }
        let path = absolute(&folder_of(entry.node.span.source), Path::new(&**value));
        // A folder whose name is no text cannot be written out.
        if let Some(text) = path.to_str() {
            *value = text.into();
        }
    }
}

/// Returns the paths that the keys of a method name, and those of the method before it.
pub(super) fn paths(name: &str, parameters: &toml::Table) -> Vec<(String, PathBuf)> {
    let mut paths = Vec::new();
    for (key, value) in parameters {
        match value {
            toml::Value::Table(first) if key == FIRST => {
                let name = first.get("name").and_then(toml::Value::as_str).unwrap_or_default();
                let below = |(key, path): (String, PathBuf)| {
                    (key.replacen("method.", "method.first.", 1), path)
                };
                paths.extend(self::paths(name, first).into_iter().map(below));
            }
            toml::Value::String(value) if is_path(Some(name), key, value) => {
                paths.push((format!("method.{key}"), PathBuf::from(value)));
            }
            _ => {}
        }
    }
    paths
}

/// Replaces paths by digests of the contents of their files, for the hash of a scenario.
///
/// A file that cannot be read keeps its path: such a run does not begin.
pub(super) fn by_content(name: &str, parameters: &mut toml::Table) {
    for (key, value) in parameters.iter_mut() {
        if let (FIRST, toml::Value::Table(first)) = (&**key, &mut *value) {
            let name = first.get("name").and_then(toml::Value::as_str).map(str::to_owned);
            by_content(name.as_deref().unwrap_or(""), first);
        }
        let path = value.as_str().filter(|path| is_path(Some(name), key, path));
        let Some(path) = path else { continue };
        if let Ok(bytes) = std::fs::read(path) {
            *value = toml::Value::String(blake3::hash(&bytes).to_hex().to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_key_and_value_make_a_path() {
        assert!(is_path(Some("lander"), "embeddings", "table.csv"));
        for (method, key, value) in [
            (Some("lander"), "embeddings", "orthogonal"),
            (Some("lander"), "epoch_end", "table.csv"),
            (Some("mine"), "embeddings", "table.csv"),
            (None, "embeddings", "table.csv"),
        ] {
            assert!(!is_path(method, key, value), "{method:?} {key} {value}");
        }
    }
}
