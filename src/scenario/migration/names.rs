//! New names of keys and values, by the path of a key.

use super::table::{KEYS, NEW_SCHEMA, OLD_SCHEMA, RenameScope, ValueForm, WORDS};

/// Returns the name in schema 2 of a key of a table, if it is another one. The path of the table has the names of
/// schema 2.
pub(super) fn new_key(
    table: &str,
    key: &str,
    method: Option<&str>,
    form: Option<ValueForm>,
) -> Option<&'static str> {
    let table = if table == "method.first" { "method" } else { table };
    let applies = |scope: RenameScope| match (scope, method) {
        (RenameScope::Everywhere, _) => true,
        (RenameScope::Methods(names, _), Some(name)) => names.contains(&name),
        (RenameScope::Methods(_, wanted), None) => form.is_none_or(|form| form == wanted),
    };
    let rename = KEYS
        .iter()
        .find(|rename| rename.table == table && rename.old == key && applies(rename.scope));
    rename.map(|rename| rename.new)
}

/// Returns a path with the names of schema 2; of the last key under this condition.
pub(super) fn new_keys(
    keys: &[String],
    method: Option<&str>,
    form: Option<ValueForm>,
) -> Vec<String> {
    let mut path: Vec<String> = Vec::with_capacity(keys.len());
    for (place, key) in keys.iter().enumerate() {
        let (method, form) = if place + 1 == keys.len() { (method, form) } else { (None, None) };
        let new = new_key(&path.join("."), key, method, form);
        path.push(new.map_or_else(|| key.clone(), str::to_owned));
    }
    path
}

/// Returns the word of schema 2 for a word that a key has as its value, if it is another one. The path of the key may
/// have the names of either schema.
pub(super) fn new_value(keys: &[String], word: &str, method: Option<&str>) -> Option<&'static str> {
    let path = new_keys(keys, method, Some(ValueForm::Word)).join(".");
    let path = path.replace("method.first.", "method.");
    let rename = WORDS.iter().find(|rename| rename.key == path && rename.old == word);
    rename.map(|rename| rename.new)
}

/// Returns the path in schema 2 of a key such as `client.batch`, if it is another one. `method` is the name in the table
/// of a key of `[method]` or `[method.first]`.
pub fn new_path(path: &str, method: Option<&str>) -> Option<String> {
    let new = new_keys(&split(path), method, None).join(".");
    (new != path).then_some(new)
}

/// Returns a sentence about a key that has another name since schema 2.
///
/// Such as "`client.batch` is called `client.batch_size` since schema 2".
pub fn renamed_key(path: &str, method: Option<&str>) -> Option<String> {
    let new = new_path(path, method)?;
    Some(format!("`{path}` is called `{new}` since schema {NEW_SCHEMA}"))
}

/// Returns a sentence about a value that has another name since schema 2.
pub fn renamed_word(path: &str, word: &str) -> Option<String> {
    let new = new_value(&split(path), word, None)?;
    Some(format!("\"{word}\" is called \"{new}\" since schema {NEW_SCHEMA}"))
}

/// Returns advice on a file of another schema than 2.
pub(crate) fn schema_help(schema: u32) -> &'static str {
    match schema {
        OLD_SCHEMA => "give keys and values their names of schema 2: `fedcast migrate FILE`",
        _ => "use the version of fedcast the file was written for, or rewrite the file",
    }
}

fn split(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_the_names_of_either_schema() {
        for (old, new) in [
            ("client.batch", "client.batch_size"),
            ("client.optimiser.lr", "client.optimizer.lr"),
            ("federation.units.rule", "federation.dummy_clients.split"),
            ("federation.dummy_clients.rule", "federation.dummy_clients.split"),
            ("method.first.weights", "method.first.client_weighting"),
            ("data.test.normalise.mean", "data.test.normalize.mean"),
            ("run.direct", "run.single_task"),
        ] {
            assert_eq!(new_path(old, None).as_deref(), Some(new), "{old}");
        }
        for same in ["client.batch_size", "data.statistics.normalise", "backbone.weights", "batch"]
        {
            assert_eq!(new_path(same, None), None, "{same}");
        }
    }

    #[test]
    fn keys_of_one_name_differ_by_method_and_value() {
        let of = |method| new_path("method.memory", Some(method));
        assert_eq!(of("ccvr").as_deref(), Some("method.gaussian_lifetime"));
        assert_eq!(of("gradma").as_deref(), Some("method.memory_clients"));
        assert_eq!(of("stsa"), None);
        let form = |key, form| new_key("method", key, None, Some(form));
        assert_eq!(form("memory", ValueForm::Word), Some("gaussian_lifetime"));
        assert_eq!(form("memory", ValueForm::Number), Some("memory_clients"));
        assert_eq!(form("components", ValueForm::Number), None);
    }

    #[test]
    fn sentences_name_both_schemas() {
        let text = renamed_key("client.batch", None);
        let wanted = "`client.batch` is called `client.batch_size` since schema 2";
        assert_eq!(text.as_deref(), Some(wanted));
        let text = renamed_word("method.norms", "settled");
        assert_eq!(text.as_deref(), Some("\"settled\" is called \"running\" since schema 2"));
        assert_eq!(renamed_word("method.first.batch_norm", "settled"), text);
        assert_eq!(renamed_word("method.batch_norm", "batch"), None);
    }
}
