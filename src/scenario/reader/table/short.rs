//! Tables for which a single value was written.

use crate::scenario::reader::node::{Node, TomlValue};
use crate::scenario::reader::param::KeyDoc;

/// Keys that a single value may stand for; the first that accepts the value is proposed.
const LEADING: [&str; 7] = ["kind", "name", "source", "dist", "preset", "run", "count"];

/// Returns the key that a value in place of its table probably means.
pub(super) fn leading_key(node: &Node, keys: &[KeyDoc]) -> Option<&'static str> {
    let takes = |kind: &str| match node.value {
        TomlValue::String(_) => ["a word", "a string"].contains(&kind),
        TomlValue::Integer(_) => kind == "an integer",
        _ => false,
    };
    let has = |name: &&str| keys.iter().any(|doc| doc.key == **name && takes(doc.kind));
    LEADING.into_iter().find(|name| has(name))
}
