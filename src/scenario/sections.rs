//! Keys and tables of a scenario, for `fedcast keys` and editors. Found by reading, so nothing is listed twice.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::reader::{
    Catalogue, KnownKey, TableReader, explore, json_schema, meaning, table_schema,
    with_shared_forms,
};
use super::{AnyMethod, MethodCatalogue, Scenario};

/// Top-level tables with their descriptions.
const SECTIONS: [(&str, &str); 20] = [
    ("seed", "seeds of the run, the partition and the class order"),
    ("data", "data set and its transforms"),
    ("tasks", "division of classes into tasks, and their arrival"),
    ("partition", "division of training samples among clients"),
    ("backbone", "network that turns a sample into features"),
    ("method", "method; its keys depend on its name"),
    ("federation", "numbers of clients and rounds, and the aggregation rule"),
    ("participation", "sampling of clients"),
    ("round", "closing of rounds"),
    ("availability", "times at which clients can be reached"),
    ("client", "local training"),
    ("time", "duration of training in virtual time"),
    ("links", "duration of messages in virtual time"),
    ("faults", "injected faults; a list of tables"),
    ("wire", "encoding of messages"),
    ("privacy", "protection of uploads from the server"),
    ("cache", "results that are computed once and kept"),
    ("devices", "devices and threads"),
    ("record", "metrics and files of a run"),
    ("expected", "published numbers, shown next to the measured ones"),
];

/// Returns names and descriptions of the top-level tables, in the order of a file.
pub fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    SECTIONS.into_iter()
}

impl Scenario {
    /// Returns every key that a scenario may have except those of methods, with its conditions.
    pub fn catalogue() -> Catalogue {
        explore(|table| Scenario::read(table, "", &AnyMethod))
    }

    /// Returns every key that `[method]` may have with this name.
    pub fn method_keys(methods: &dyn MethodCatalogue, name: &str) -> Catalogue {
        explore(|table: &mut TableReader<'_>| methods.read(name, "vit", table))
    }

    /// Returns the JSON Schema of the file format.
    ///
    /// The keys of a method depend on its name, which the schema expresses as conditions.
    pub fn json_schema(methods: &dyn MethodCatalogue) -> Value {
        let mut catalogue = Scenario::catalogue();
        catalogue.keys.retain(|key| !key.doc.key.starts_with("method."));
        let required = ["schema", "data", "tasks", "partition", "method"];
        let mut schema =
            json_schema(&catalogue, "a scenario of fedcast", &required, Some("extends"));
        let properties = &mut schema["properties"];
        properties["method"] = method_schema(methods);
        // `wire = "verify"` is short for a table.
        let table = properties["wire"].take();
        properties["wire"] = json!({ "anyOf": [{ "const": "verify" }, table] });
        for (name, about) in sections() {
            properties[name]["description"] = about.into();
        }
        with_shared_forms(schema)
    }
}

/// Returns the schema of `[method]`: every key of every method for editors, strictly those of the named one.
fn method_schema(methods: &dyn MethodCatalogue) -> Value {
    let names = methods.names();
    let mut meanings = Meanings::default();
    let mut conditions = Vec::new();
    for name in &names {
        let catalogue = Scenario::method_keys(methods, name);
        let tables = catalogue.tables.iter().map(|table| (&table.path, String::new()));
        let keys = catalogue.keys.iter().map(|key| (&key.doc.key, meaning(&key.doc)));
        for (path, about) in tables.chain(keys).filter(|(path, _)| !path.contains('.')) {
            meanings.add(path, name, &about);
        }
        let mut form = table_schema(&catalogue);
        if let Some(properties) = form["properties"].as_object_mut() {
            properties.insert("name".to_owned(), json!(true));
            if properties.contains_key("first") {
                properties.insert("first".to_owned(), json!({ "type": "object" }));
            }
        }
        let named = json!({ "properties": { "name": { "const": name } }, "required": ["name"] });
        conditions.push(json!({ "if": named, "then": form }));
    }
    let about = "the method; `fedcast methods` lists them";
    let mut all = meanings.described();
    all.insert("name".to_owned(), json!({ "type": "string", "enum": names, "description": about }));
    json!({ "type": "object", "properties": all, "allOf": conditions })
}

/// Meanings of keys, each with its methods.
///
/// A key of this name is valid whatever the method; its meaning depends on the method. The source of a default is only
/// given in the form of the method.
#[derive(Default)]
struct Meanings(BTreeMap<String, Vec<(String, Vec<String>)>>);

impl Meanings {
    fn add(&mut self, key: &str, method: &str, about: &str) {
        let of_key = self.0.entry(key.to_owned()).or_default();
        let known = of_key.iter_mut().find(|(known, _)| known == about);
        match known {
            // A key of several types is met once for each.
            Some((_, methods)) if methods.last().is_some_and(|last| last == method) => {}
            Some((_, methods)) => methods.push(method.to_owned()),
            None => of_key.push((about.to_owned(), vec![method.to_owned()])),
        }
    }

    /// Returns every key with all its meanings.
    fn described(self) -> Map<String, Value> {
        let line =
            |(about, methods): (String, Vec<String>)| format!("{}: {about}", methods.join(", "));
        let text = |lines: Vec<_>| lines.into_iter().map(line).collect::<Vec<_>>().join("\n");
        let form = |(key, lines)| (key, json!({ "description": text(lines) }));
        self.0.into_iter().map(form).collect()
    }
}

/// Returns the keys of a table and of those inside it.
///
/// For the path of a key, it returns only that key.
pub fn below<'a>(catalogue: &'a Catalogue, path: &str) -> Vec<&'a KnownKey> {
    let inside = |key: &&KnownKey| {
        let rest = key.doc.key.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    catalogue.keys.iter().filter(inside).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_top_level_table_is_described() {
        let catalogue = Scenario::catalogue();
        let tops = catalogue.tables.iter().filter(|table| !table.path.contains('.'));
        let tops: BTreeSet<&str> = tops.map(|table| &*table.path).collect();
        let described: BTreeSet<&str> = sections().map(|(name, _)| name).collect();
        assert_eq!(tops, described);
    }

    #[test]
    fn keys_that_a_word_brings_are_known_with_that_word() {
        let catalogue = Scenario::catalogue();
        let of = |path: &str| below(&catalogue, path);
        let beta = of("partition.beta");
        assert_eq!(beta.len(), 1);
        let (key, words) = &beta[0].with[0];
        assert_eq!(key, "partition.kind");
        assert!(words.contains(&"dirichlet".to_owned()) && !words.contains(&"iid".to_owned()));
        for path in [
            "tasks.sizes",
            "tasks.count",
            "participation.fraction",
            "privacy.noise.scale",
            "links.up_mb_per_s.median",
            "faults.rate",
            "wire.up.kinds.head",
            "backbone.architecture.depth",
            "client.optimizer.momentum",
            "data.nominal.classes",
        ] {
            assert!(!of(path).is_empty(), "{path} is not found");
        }
        let kinds = |path: &str| of(path).iter().map(|key| key.doc.kind).collect::<Vec<_>>();
        assert_eq!(kinds("devices.workers"), ["a word", "an integer"]);
        assert!(kinds("links.rtt_ms").contains(&"a number"));
    }
}
