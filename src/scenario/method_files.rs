//! Files that keys of `[method]` name: their paths, and their contents in the hash.

use std::path::{Path, PathBuf};

use super::load::absolute;
use super::reader::{Node, TomlValue};

/// Keys that name a file, with the words that are none.
const KEYS: [(&str, &[&str]); 1] = [("embeddings", &["orthogonal"])];

/// Returns true if the value of a key is a path.
fn is_path(key: &str, value: &str) -> bool {
    KEYS.iter().any(|(own, words)| *own == key && !words.contains(&value))
}

/// Makes the paths of `[method]` absolute, before the method reads them.
///
/// `folder_of` gives the folder at which the paths of a source start.
pub(super) fn resolve(root: &mut Node, folder_of: impl Fn(usize) -> PathBuf) {
    let TomlValue::Table(sections) = &mut root.value else { return };
    let Some(TomlValue::Table(method)) =
        sections.get_mut("method").map(|entry| &mut entry.node.value)
    else {
        return;
    };
    for (key, entry) in method {
        let TomlValue::String(value) = &mut entry.node.value else { continue };
        if !is_path(key, value) {
            continue;
        }
        let path = absolute(&folder_of(entry.node.span.source), Path::new(&**value));
        // A folder whose name is no text cannot be written out.
        if let Some(text) = path.to_str() {
            *value = text.into();
        }
    }
}

/// Replaces paths by digests of the contents of their files, for the hash of a scenario.
///
/// A file that cannot be read keeps its path: such a run does not begin.
pub(super) fn by_content(parameters: &mut toml::Table) {
    for (key, value) in parameters.iter_mut() {
        let Some(path) = value.as_str().filter(|path| is_path(key, path)) else { continue };
        if let Ok(bytes) = std::fs::read(path) {
            *value = toml::Value::String(blake3::hash(&bytes).to_hex().to_string());
        }
    }
}
