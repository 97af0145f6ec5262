//! `[method]`: the name of a method and its own keys.

use serde::Serialize;

/// What is learnt, and how.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MethodSection {
    /// The name in the registry. Required.
    pub name: String,
    /// The method's own keys with every default written out, without `name`.
    #[serde(flatten)]
    pub parameters: toml::Table,
}
