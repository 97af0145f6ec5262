//! Tables that somebody wrote a single value for.

use crate::scenario::reader::node::{Node, Value};
use crate::scenario::reader::param::KeyDoc;

/// Keys that a table may be written for in short, the first that takes the value.
const LEADING: [&str; 7] = ["kind", "name", "source", "dist", "preset", "run", "count"];

/// The key of a table that somebody means who writes this value in its place.
pub(super) fn leading_key(node: &Node, keys: &[KeyDoc]) -> Option<&'static str> {
    let takes = |kind: &str| match node.value {
        Value::String(_) => ["a word", "a string"].contains(&kind),
        Value::Integer(_) => kind == "an integer",
        _ => false,
    };
    let has = |name: &&str| keys.iter().any(|doc| doc.key == **name && takes(doc.kind));
    LEADING.into_iter().find(|name| has(name))
}
