//! Migration of the text of one file.

use serde::Serialize;

use super::places::{FileForm, is_path};
use super::renaming::{TextEdit, old_names, with_edits};
use super::table::{NEW_SCHEMA, OLD_SCHEMA};
use super::tokens::{DocumentToken, TokenContent, document_tokens};
use crate::document::Document;
use crate::scenario::ScenarioError;
use crate::scenario::reader::{
    Node, ReadingReport, SourceText, TextSpan, TomlValue, ValueFault, read_document,
};

/// Text of a file with the names of schema 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// Whole text. Comments, spaces and line ends are those of the file.
    pub text: String,
    /// Names that were replaced, each once; empty if the text is as it was.
    pub changes: Vec<RenamedName>,
}

/// Name that a migration replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Document)]
pub struct RenamedName {
    /// First line with the old name, from 1.
    pub line: usize,
    /// Old path of a key, or a key with its old value.
    pub old: String,
    /// New path, or the key with its new value.
    pub new: String,
}

/// Migrates the text of a scenario, a base or a study from schema 1 to schema 2.
///
/// `shown` stands for the file in errors. A text of schema 2 is returned as it is; files that it names are not read.
///
/// # Errors
/// Text that is not TOML, another schema, and old names whose new names stand in the same table; each with its place.
pub fn migrate(text: &str, shown: &str) -> Result<Migrated, ScenarioError> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = with_line_feeds(body);
    read_document(&lines, shown, "the file", |table| table.accept_rest())?;
    let tokens = document_tokens(&lines);
    let form = FileForm::of(&tokens);
    let mut report = ReadingReport::default();
    let source = report.add(SourceText::new(shown, &lines));
    let mut fault = |span: &std::ops::Range<usize>, message: &str, label: &str, help: &str| {
        let span = TextSpan::new(source, span.clone());
        let node = Node { value: TomlValue::Boolean(false), span };
        report.fault(ValueFault::new(&node, message, label).help(help));
    };
    let mut edits = Vec::new();
    if let Some(schema) = tokens.iter().find(|token| is_schema(token)) {
        match &schema.content {
            TokenContent::Plain(number) if *number == NEW_SCHEMA.to_string() => {
                return Ok(Migrated { text: text.to_owned(), changes: Vec::new() });
            }
            TokenContent::Plain(number) if *number == OLD_SCHEMA.to_string() => {
                edits.push(schema_edit(schema));
            }
            _ => {
                let message = format!("this is not schema {OLD_SCHEMA}");
                let help =
                    format!("files of schema {OLD_SCHEMA} become files of schema {NEW_SCHEMA}");
                fault(&schema.span, &message, "another format", &help);
            }
        }
    }
    edits.extend(old_names(&lines, &tokens, &form));
    edits.sort_by_key(|edit| edit.span.start);
    for TextEdit { span, old, new, .. } in edits.iter().filter(|edit| edit.is_taken) {
        let message =
            format!("`{old}` is called `{new}` in schema {NEW_SCHEMA}, which stands here too");
        fault(span, &message, "the old name", "remove one of the two");
    }
    if !report.is_clean() {
        return Err(report.into_error());
    }
    let mark = &text[..text.len() - body.len()];
    let changes = distinct(&lines, &edits);
    Ok(Migrated { text: mark.to_owned() + &with_edits(body, &edits), changes })
}

/// Returns a text of the same length in which a single carriage return, a line end, is a line feed.
fn with_line_feeds(text: &str) -> String {
    let mut characters = text.chars().peekable();
    let mut lines = String::with_capacity(text.len());
    while let Some(character) = characters.next() {
        let is_end = character == '\r' && characters.peek() != Some(&'\n');
        lines.push(if is_end { '\n' } else { character });
    }
    lines
}

/// Returns true for the value of the key `schema` of a file.
fn is_schema(token: &DocumentToken) -> bool {
    token.content != TokenContent::Key && is_path(&token.path, &["schema"])
}

fn schema_edit(token: &DocumentToken) -> TextEdit {
    TextEdit {
        span: token.span.clone(),
        text: NEW_SCHEMA.to_string(),
        old: format!("schema = {OLD_SCHEMA}"),
        new: format!("schema = {NEW_SCHEMA}"),
        is_taken: false,
    }
}

/// Returns every replaced name at its first place.
fn distinct(text: &str, edits: &[TextEdit]) -> Vec<RenamedName> {
    let mut changes: Vec<RenamedName> = Vec::new();
    for TextEdit { span, old, new, .. } in edits {
        if !changes.iter().any(|known| (&known.old, &known.new) == (old, new)) {
            let line = text[..span.start].matches('\n').count() + 1;
            changes.push(RenamedName { line, old: old.clone(), new: new.clone() });
        }
    }
    changes
}
