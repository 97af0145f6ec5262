//! JSON Schemas of the documents of a run, read off the types that are written.
//!
//! ```
//! use fedcast::report::dictionary::{RunDocument, json_schema};
//! let schema = json_schema(RunDocument::Summary);
//! assert_eq!(schema["properties"]["accuracy"]["properties"]["faa"]["type"][0], "number");
//! ```

use serde_json::{Map, Value, json};

use crate::document::{CellType, Content, Document, Key};
use crate::experiment::{FORMAT, Manifest};
use crate::federation::Span;
use crate::report::Summary;
use crate::report::column::Columns;
use crate::report::tables::RoundRow;

/// Document that a run leaves or prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunDocument {
    /// `summary.json`.
    Summary,
    /// Document of `run --format json`: the summary with directory and hash.
    Run,
    /// `manifest.json`.
    Manifest,
    /// Line of `rounds.jsonl`.
    Rounds,
    /// Line of `profile.jsonl`.
    Profile,
}

/// Dialect of the schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Returns the schema of a document of this program's format.
///
/// It allows no other keys, so that a misspelled one is noticed, and requires those that are always written. Values may
/// be null, except the format, the directory and hash of a run, and the step.
pub fn json_schema(document: RunDocument) -> Value {
    let (name, title) = match document {
        RunDocument::Summary => ("summary", "summary.json of a run of fedcast"),
        RunDocument::Run => ("run", "document of `fedcast run --format json`"),
        RunDocument::Manifest => ("manifest", "manifest.json of a run of fedcast"),
        RunDocument::Rounds => ("rounds", "line of rounds.jsonl of a run of fedcast"),
        RunDocument::Profile => ("profile", "line of profile.jsonl of a run of fedcast"),
    };
    let mut schema = match document {
        RunDocument::Summary | RunDocument::Run => object_of(Summary::CONTENT),
        RunDocument::Manifest => object_of(Manifest::CONTENT),
        RunDocument::Profile => object_of(Span::CONTENT),
        RunDocument::Rounds => rounds(),
    };
    if document == RunDocument::Run {
        for (key, meaning) in
            [("directory", "directory of the run"), ("hash", "hash of its scenario")]
        {
            schema["properties"][key] = json!({ "type": "string", "description": meaning });
        }
        require_first(&mut schema, &["directory", "hash"]);
    }
    if matches!(document, RunDocument::Summary | RunDocument::Manifest | RunDocument::Run) {
        schema["properties"]["format"] =
            json!({ "const": FORMAT, "description": "format of the document" });
    }
    schema["type"] = "object".into();
    schema["$schema"] = DIALECT.into();
    schema["$id"] = format!("urn:fedcast:{name}:{FORMAT}").into();
    schema["title"] = title.into();
    schema
}

/// Returns the schema of a document that a command prints, of this version of its form.
///
/// As in [`json_schema`], keys that are always written are required, and no others are allowed.
pub fn printed_schema(name: &str, title: &str, content: Content, format: u32) -> Value {
    let mut schema = object_of(content);
    schema["properties"]["format"] =
        json!({ "const": format, "description": "version of the document" });
    require_first(&mut schema, &["format"]);
    schema["type"] = "object".into();
    schema["$schema"] = DIALECT.into();
    schema["$id"] = format!("urn:fedcast:{name}:{format}").into();
    schema["title"] = title.into();
    schema
}

/// Requires these keys of an object, before its own.
fn require_first(schema: &mut Value, keys: &[&str]) {
    let own = schema["required"].take();
    let own = own.as_array().into_iter().flatten().cloned();
    schema["required"] = keys.iter().map(|key| Value::from(*key)).chain(own).collect();
}

fn object_of(content: Content) -> Value {
    value(&Key { content, ..Key::BLANK }, content)
}

/// Returns the schema of a line of `rounds.jsonl`, which has the columns of `rounds.csv` and the step.
///
/// Every line has all of them; an empty cell is null.
fn rounds() -> Value {
    let mut properties = Map::new();
    properties.insert(
        "_step".to_owned(),
        json!({ "type": "integer", "description": "number of the round" }),
    );
    for column in RoundRow::COLUMNS {
        let described = described(column.meaning, column.unit);
        let mut schema = json!({ "type": [word(column.cells), "null"] });
        schema["description"] = described.into();
        properties.insert(column.name.to_owned(), schema);
    }
    let required: Vec<&str> =
        ["_step"].into_iter().chain(RoundRow::COLUMNS.iter().map(|column| column.name)).collect();
    json!({ "properties": properties, "required": required, "additionalProperties": false })
}

fn word(cells: CellType) -> &'static str {
    match cells {
        CellType::Int => "integer",
        CellType::Float => "number",
        CellType::Text => "string",
    }
}

fn described(meaning: &str, unit: &str) -> String {
    if unit.is_empty() { meaning.to_owned() } else { format!("{meaning} ({unit})") }
}

/// Returns the schema of a value of a key.
fn value(key: &Key, content: Content) -> Value {
    match content {
        Content::Value(cells, unit) => {
            let mut schema = json!({ "type": [word(cells), "null"] });
            let text = described(key.meaning, key.unit.unwrap_or(unit));
            if !text.is_empty() {
                schema["description"] = text.into();
            }
            schema
        }
        Content::Flag => {
            json!({ "type": ["boolean", "null"], "description": key.meaning })
        }
        Content::Any => json!({ "description": key.meaning }),
        Content::List(entry) => json!({ "type": ["array", "null"], "items": value(key, *entry) }),
        Content::Map(of) => {
            json!({ "type": ["object", "null"], "additionalProperties": value(key, *of) })
        }
        Content::Keys(keys) => {
            let mut object = ObjectSchema::default();
            object.collect(keys, true);
            object.schema()
        }
    }
}

/// Schemas of the keys of an object.
#[derive(Default)]
struct ObjectSchema {
    properties: Map<String, Value>,
    required: Vec<&'static str>,
    /// Schema of any other key, if there may be one.
    others: Option<Value>,
}

impl ObjectSchema {
    /// Adds the schemas of keys; keys without a name are replaced by those of their content.
    ///
    /// A name in angle brackets stands for any other key. `is_whole` is false if all keys may be left out together.
    fn collect(&mut self, keys: &[Key], is_whole: bool) {
        for key in keys {
            let is_required = is_whole && key.is_always_written;
            match (key.name, key.content) {
                ("", Content::Keys(inner)) => self.collect(inner, is_required),
                ("", Content::Map(of)) => self.others = Some(value(key, *of)),
                (name, content) if name.starts_with('<') => {
                    self.others = Some(value(key, content));
                }
                (name, content) => {
                    self.properties.insert(name.to_owned(), value(key, content));
                    self.required.extend(is_required.then_some(name));
                }
            }
        }
    }

    fn schema(self) -> Value {
        let mut schema = json!({
            "type": ["object", "null"], "properties": self.properties,
            "additionalProperties": self.others.unwrap_or(Value::Bool(false)),
        });
        if !self.required.is_empty() {
            schema["required"] = self.required.into();
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde::Serialize;

    use super::*;
    use crate::quantity::Bytes;

    #[derive(Default, Serialize, Document)]
    struct ExampleInner {
        /// Size.
        size: Bytes,
    }

    #[derive(Default, Serialize, Document)]
    struct ExampleCost {
        /// Wall time.
        wall_s: f64,
        /// Memory.
        #[serde(skip_serializing_if = "Option::is_none")]
        memory_mb: Option<f64>,
    }

    #[derive(Default, Serialize, Document)]
    struct ExampleFault {
        /// Reason.
        reason: String,
    }

    #[derive(Default, Serialize, Document)]
    struct ExampleDocument {
        /// Accuracy by task.
        #[document(unit = "share")]
        matrix: Vec<Option<f64>>,
        /// Error; null if there is none.
        error: Option<String>,
        #[serde(flatten)]
        cost: ExampleCost,
        #[serde(flatten)]
        fault: Option<ExampleFault>,
        /// Sizes by name.
        #[document(keys("name"))]
        sums: BTreeMap<String, u64>,
        #[document(of = "the file")]
        file: ExampleInner,
    }

    #[test]
    fn types_give_their_schemas() {
        let number =
            json!({ "type": ["number", "null"], "description": "accuracy by task (share)" });
        let whole = json!({ "type": ["integer", "null"], "description": "sizes by name" });
        let size = json!({ "type": ["integer", "null"], "description": "size (bytes)" });
        let seconds = json!({ "type": ["number", "null"], "description": "wall time (s)" });
        let megabytes = json!({ "type": ["number", "null"], "description": "memory (MB)" });
        let text = |meaning| json!({ "type": ["string", "null"], "description": meaning });
        assert_eq!(
            object_of(ExampleDocument::CONTENT),
            json!({
                "type": ["object", "null"],
                "properties": {
                    "matrix": { "type": ["array", "null"], "items": number },
                    "error": text("error; null if there is none"),
                    "wall_s": seconds,
                    "memory_mb": megabytes,
                    "reason": text("reason"),
                    "sums": { "type": ["object", "null"], "additionalProperties": whole },
                    "file": {
                        "type": ["object", "null"], "properties": { "size": size },
                        "required": ["size"], "additionalProperties": false,
                    },
                },
                "required": ["matrix", "error", "wall_s", "sums", "file"],
                "additionalProperties": false,
            })
        );
    }

    /// Keys of the poorest document are those that are required.
    #[test]
    fn keys_that_are_always_written_are_required() {
        let poorest = serde_json::to_value(ExampleDocument::default()).unwrap();
        let keys: BTreeSet<&String> = poorest.as_object().unwrap().keys().collect();
        let schema = object_of(ExampleDocument::CONTENT);
        let required: Vec<String> = serde_json::from_value(schema["required"].clone()).unwrap();
        assert_eq!(required.iter().collect::<BTreeSet<_>>(), keys);
        let printed = printed_schema("example", "an example", ExampleDocument::CONTENT, 7);
        assert_eq!(printed["required"][0], "format");
        assert_eq!(
            printed["required"].as_array().unwrap()[1..],
            *schema["required"].as_array().unwrap()
        );
        let of = |document, key: &str| {
            let schema = json_schema(document);
            let required = schema["required"].as_array().unwrap().clone();
            required.iter().filter(|one| **one == key).count()
        };
        assert_eq!(of(RunDocument::Run, "hash") + of(RunDocument::Run, "format"), 2);
        assert_eq!(of(RunDocument::Summary, "hash"), 0);
        assert_eq!(of(RunDocument::Summary, "virtual_s"), 1);
        assert_eq!(of(RunDocument::Summary, "poisoned"), 0, "left out where there is none");
        assert_eq!(of(RunDocument::Rounds, "accuracy_seen"), 1);
    }

    #[test]
    fn documents_have_a_version() {
        for document in [RunDocument::Summary, RunDocument::Run, RunDocument::Manifest] {
            let schema = json_schema(document);
            assert_eq!(schema["properties"]["format"]["const"], FORMAT);
            assert!(schema["required"].as_array().unwrap().contains(&json!("format")));
            assert!(schema["$id"].as_str().unwrap().ends_with(&format!(":{FORMAT}")));
        }
        assert!(json_schema(RunDocument::Rounds)["properties"]["accuracy_seen"].is_object());
    }
}
