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
/// Keys that are not in it are refused, so that a misspelled one is noticed; every value may be missing or null except
/// the format.
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
        schema["required"] = json!(["directory", "hash", "format"]);
    }
    if matches!(document, RunDocument::Summary | RunDocument::Manifest | RunDocument::Run) {
        schema["properties"]["format"] =
            json!({ "const": FORMAT, "description": "format of the document" });
    }
    if matches!(document, RunDocument::Summary | RunDocument::Manifest) {
        schema["required"] = json!(["format"]);
    }
    schema["type"] = "object".into();
    schema["$schema"] = DIALECT.into();
    schema["$id"] = format!("urn:fedcast:{name}:{FORMAT}").into();
    schema["title"] = title.into();
    schema
}

/// Returns the schema of a document that a command prints, of this version of its form.
///
/// As in [`json_schema`], only `format` is required, and other keys are refused.
pub fn printed_schema(name: &str, title: &str, content: Content, format: u32) -> Value {
    let mut schema = object_of(content);
    schema["properties"]["format"] =
        json!({ "const": format, "description": "version of the document" });
    schema["required"] = json!(["format"]);
    schema["type"] = "object".into();
    schema["$schema"] = DIALECT.into();
    schema["$id"] = format!("urn:fedcast:{name}:{format}").into();
    schema["title"] = title.into();
    schema
}

fn object_of(content: Content) -> Value {
    value(&Key { content, ..Key::BLANK }, content)
}

/// Returns the schema of a line of `rounds.jsonl`, which has the columns of `rounds.csv` and the step.
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
    json!({ "properties": properties, "required": ["_step"], "additionalProperties": false })
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
            let (mut properties, mut others) = (Map::new(), Value::Bool(false));
            collect(keys, &mut properties, &mut others);
            json!({
                "type": ["object", "null"], "properties": properties, "additionalProperties": others,
            })
        }
    }
}

/// Adds the schemas of keys; keys without a name are replaced by those of their content.
///
/// A name in angle brackets stands for any other key.
fn collect(keys: &[Key], properties: &mut Map<String, Value>, others: &mut Value) {
    for key in keys {
        match (key.name, key.content) {
            ("", Content::Keys(inner)) => collect(inner, properties, others),
            ("", Content::Map(of)) => *others = value(key, *of),
            (name, content) if name.starts_with('<') => *others = value(key, content),
            (name, content) => {
                properties.insert(name.to_owned(), value(key, content));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::quantity::Bytes;

    #[derive(Document)]
    #[expect(dead_code)]
    struct ExampleInner {
        /// Size.
        size: Bytes,
    }

    #[derive(Document)]
    #[expect(dead_code)]
    struct ExampleDocument {
        /// Accuracy by task.
        #[document(unit = "share")]
        matrix: Vec<Option<f64>>,
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
        assert_eq!(
            object_of(ExampleDocument::CONTENT),
            json!({
                "type": ["object", "null"],
                "properties": {
                    "matrix": { "type": ["array", "null"], "items": number },
                    "sums": { "type": ["object", "null"], "additionalProperties": whole },
                    "file": {
                        "type": ["object", "null"], "properties": { "size": size },
                        "additionalProperties": false,
                    },
                },
                "additionalProperties": false,
            })
        );
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
