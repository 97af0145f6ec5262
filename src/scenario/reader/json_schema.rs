//! JSON Schema of the keys of a document, for editors: Taplo and VS Code complete and check TOML with it.

use serde_json::{Map, Value, json};

use super::explore::{Catalogue, KnownKey};
use super::param::{Edge, KeyDoc};

/// Returns a schema (draft 7) with this title.
///
/// `required` lists the tables and keys that a document must have at its top, `unless` it has a key that names their
/// place.
pub fn json_schema(
    catalogue: &Catalogue,
    title: &str,
    required: &[&str],
    unless: Option<&str>,
) -> Value {
    let mut root = table(catalogue, "");
    let Value::Object(schema) = &mut root else { return root };
    schema.insert("$schema".to_owned(), "http://json-schema.org/draft-07/schema#".into());
    schema.insert("title".to_owned(), title.into());
    match unless {
        None => schema.insert("required".to_owned(), json!(required)),
        Some(key) => schema
            .insert("anyOf".to_owned(), json!([{ "required": [key] }, { "required": required }])),
    };
    root
}

/// Returns the schema of a table in another document.
pub fn table_schema(catalogue: &Catalogue) -> Value {
    table(catalogue, "")
}

/// Returns the schema of a table with everything in it.
fn table(catalogue: &Catalogue, path: &str) -> Value {
    let mut properties: Map<String, Value> = Map::new();
    let inside = |key: &str| match path.is_empty() {
        true => Some(key.to_owned()),
        false => key.strip_prefix(path)?.strip_prefix('.').map(str::to_owned),
    };
    let own = |key: &str| inside(key).filter(|rest| !rest.contains('.'));
    let add = |properties: &mut Map<String, Value>, name: String, form: Value| {
        match properties.remove(&name) {
            None => properties.insert(name, form),
            Some(before) => properties.insert(name, either(before, form)),
        };
    };
    for key in &catalogue.keys {
        if let Some(name) = own(&key.doc.key) {
            add(&mut properties, name, form(key));
        }
    }
    for of in &catalogue.tables {
        let Some(name) = own(&of.path) else { continue };
        let inner = table(catalogue, &of.path);
        let inner = if of.list { json!({ "type": "array", "items": inner }) } else { inner };
        add(&mut properties, name, inner);
    }
    let open = catalogue.tables.iter().any(|of| of.path == path && of.open);
    json!({ "type": "object", "properties": properties, "additionalProperties": open })
}

/// Joins two alternative forms; those of a key with several forms are in one list.
fn either(before: Value, form: Value) -> Value {
    match before {
        Value::Object(mut object) if object.contains_key("anyOf") && object.len() == 1 => {
            if let Some(Value::Array(forms)) = object.get_mut("anyOf") {
                forms.push(form);
            }
            Value::Object(object)
        }
        before => json!({ "anyOf": [before, form] }),
    }
}

/// Returns the schema of a key's values.
fn form(key: &KnownKey) -> Value {
    let KeyDoc { kind, entries, choices, .. } = &key.doc;
    let words = || choices.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>();
    let mut form = match (*kind, entries) {
        ("a list", Some(entries)) => {
            let mut item = plain(entries);
            if !choices.is_empty() {
                item.insert("enum".to_owned(), json!(words()));
            }
            bound(&mut item, &key.doc);
            Map::from_iter([
                ("type".to_owned(), "array".into()),
                ("items".to_owned(), Value::Object(item)),
            ])
        }
        (kind, _) => {
            let mut form = plain(kind);
            if !choices.is_empty() {
                form.insert("enum".to_owned(), json!(words()));
            }
            bound(&mut form, &key.doc);
            form
        }
    };
    form.insert("description".to_owned(), described(key).into());
    if let Some(default) = key.doc.default.as_deref().and_then(json_of) {
        form.insert("default".to_owned(), default);
    }
    Value::Object(form)
}

fn plain(kind: &str) -> Map<String, Value> {
    let of = |word: &str| Map::from_iter([("type".to_owned(), Value::from(word))]);
    match kind {
        "an integer" => of("integer"),
        "a number" => of("number"),
        "true or false" => of("boolean"),
        "a list" => of("array"),
        "a table of changes" => of("object"),
        "a value" => Map::new(),
        _ => of("string"),
    }
}

fn bound(form: &mut Map<String, Value>, doc: &KeyDoc) {
    let mut limit = |bound: Option<(f64, Edge)>, included: &str, excluded: &str| {
        if let Some((value, edge)) = bound {
            let word = if edge == Edge::Included { included } else { excluded };
            form.insert(word.to_owned(), json!(value));
        }
    };
    limit(doc.bounds.least, "minimum", "exclusiveMinimum");
    limit(doc.bounds.most, "maximum", "exclusiveMaximum");
}

/// Returns the meaning of a key and of its words.
pub fn meaning(key: &KeyDoc) -> String {
    let mut text = key.doc.to_owned();
    for (word, meaning) in key.choices.iter().filter(|(_, meaning)| !meaning.is_empty()) {
        text.push_str(&format!("\n- `{word}`: {meaning}"));
    }
    text
}

/// Returns the text that editors show: meaning, words, conditions, source.
fn described(key: &KnownKey) -> String {
    let mut text = meaning(&key.doc);
    for (other, words) in &key.with {
        text.push_str(&format!("\nWith {other} = {}.", words.join(" or ")));
    }
    if let Some(source) = key.doc.source {
        text.push_str(&format!("\nDefault from: {source}."));
    }
    text
}

/// Converts a default from TOML to JSON; infinity has no form there.
fn json_of(toml: &str) -> Option<Value> {
    let document: toml::Table = format!("value = {toml}").parse().ok()?;
    let value = serde_json::to_value(document.get("value")?).ok()?;
    (!value.is_null()).then_some(value)
}
