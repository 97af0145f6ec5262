//! Definitions in a schema for forms that stand in several places.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Smallest number of characters for which a form becomes a definition.
const SHORT: usize = 120;

/// Returns the schema with its repeated forms in `definitions`, named by the keys that have them.
pub fn with_shared_forms(mut schema: Value) -> Value {
    let mut seen = BTreeMap::new();
    each_form(&mut schema, &mut |form, name| first_time(form, name, &mut seen));
    let mut taken = BTreeSet::new();
    let repeated = seen.into_iter().filter(|(text, seen)| seen.count > 1 && text.len() > SHORT);
    let names: BTreeMap<String, String> =
        repeated.map(|(text, seen)| (text, free(seen.name, &mut taken))).collect();
    let mut definitions = Map::new();
    for (text, name) in &names {
        // Parsing cannot fail: the text is the form as JSON.
        let mut form: Value = serde_json::from_str(text).unwrap_or_default();
        each_form(&mut form, &mut |form, _| referred(form, &names));
        definitions.insert(name.clone(), form);
    }
    each_form(&mut schema, &mut |form, _| referred(form, &names));
    if !definitions.is_empty() {
        schema["definitions"] = definitions.into();
    }
    schema
}

/// Number of occurrences of a form, and its first key.
struct FormCount {
    count: usize,
    name: String,
}

/// Counts a form and returns true the first time.
///
/// The parts of a form that is met again are no repetitions themselves.
fn first_time(form: &Value, name: &str, seen: &mut BTreeMap<String, FormCount>) -> bool {
    let new = FormCount { count: 0, name: name.to_owned() };
    let of = seen.entry(form.to_string()).or_insert(new);
    of.count += 1;
    of.count == 1
}

/// Replaces a form that has a name by a reference.
fn referred(form: &mut Value, names: &BTreeMap<String, String>) -> bool {
    match names.get(&form.to_string()) {
        None => true,
        Some(name) => {
            *form = json!({ "$ref": format!("#/definitions/{name}") });
            false
        }
    }
}

/// Calls `visit` for every form within a schema, with the key that has it, from the outside in.
///
/// Continues into forms for which `visit` returns true.
fn each_form(schema: &mut Value, visit: &mut dyn FnMut(&mut Value, &str) -> bool) {
    within(schema, "form", visit);
}

fn within(schema: &mut Value, name: &str, visit: &mut dyn FnMut(&mut Value, &str) -> bool) {
    let Value::Object(schema) = schema else { return };
    let mut one = |form: &mut Value, name: &str| {
        if visit(form, name) {
            within(form, name, visit);
        }
    };
    for (keyword, rule) in schema {
        match (keyword.as_str(), rule) {
            ("properties", Value::Object(forms)) => {
                forms.iter_mut().for_each(|(name, form)| one(form, name));
            }
            ("anyOf" | "allOf", Value::Array(forms)) => {
                forms.iter_mut().for_each(|form| one(form, name));
            }
            ("items" | "then", form) => one(form, name),
            _ => {}
        }
    }
}

/// Returns a name that is not taken.
fn free(name: String, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    let name = names.find(|name| !taken.contains(name)).unwrap_or(name);
    taken.insert(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(about: &str) -> Value {
        json!({ "type": "string", "description": about.repeat(20) })
    }

    #[test]
    fn what_stands_in_two_places_becomes_one_definition() {
        let inner = json!({ "type": "object", "properties": { "rate": word("rate of it ") } });
        let schema = json!({ "properties": {
            "a": { "properties": { "rate": word("rate of it ") } },
            "b": inner.clone(),
            "c": inner,
            "d": { "properties": { "rate": word("another rate ") } },
            "short": { "type": "string" },
            "e": { "properties": { "rate": word("another rate "), "short": { "type": "string" } } },
        }});
        let shared = with_shared_forms(schema);
        let definitions = shared["definitions"].as_object().unwrap();
        assert_eq!(definitions.keys().collect::<Vec<_>>(), ["b", "rate", "rate-2"]);
        assert_eq!(shared["properties"]["b"], json!({ "$ref": "#/definitions/b" }));
        assert_eq!(shared["properties"]["b"], shared["properties"]["c"]);
        // What is in a definition refers to others.
        let rate = &definitions["b"]["properties"]["rate"];
        assert_eq!(*rate, shared["properties"]["a"]["properties"]["rate"]);
        assert_eq!(shared["properties"]["e"]["properties"]["short"], json!({ "type": "string" }));
    }

    #[test]
    fn a_schema_without_repetition_stays_as_it_is() {
        let schema = json!({ "properties": { "a": word("once ") }, "items": true });
        assert_eq!(with_shared_forms(schema.clone()), schema);
    }
}
