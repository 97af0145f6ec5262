//! Strict reader of TOML tables: every key is known, typed and in range, or an error gives its place and a correction.
//! Errors are collected, so that one reading reports all of them.
//!
//! A section or a method describes its keys once, as [`Param`]s, and reads them through a [`TableReader`]. The same
//! description prints `fedcast methods show` (through [`describe`]), fills defaults and writes the effective scenario.
//!
//! ```
//! use clap::ValueEnum;
//! use fedcast::scenario::reader::{describe, Choice, Param, TableReader};
//!
//! #[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
//! enum Rebalance {
//!     /// Not at all.
//!     None,
//!     /// All classes seen.
//!     Both,
//! }
//! impl Choice for Rebalance {}
//!
//! #[derive(Debug, PartialEq)]
//! struct Config { tau: f64, prompt_len: u32, rebalance: Rebalance }
//!
//! fn read(table: &mut TableReader<'_>) -> Config {
//!     Config {
//!         tau: table.get(&Param::new("tau", 0.1, "temperature of the normalized logits").above(0.0)),
//!         prompt_len: table.get(
//!             &Param::new("prompt_len", 200, "rows of the prompt in a block").source("public code"),
//!         ),
//!         rebalance: table.get(&Param::new("rebalance", Rebalance::Both, "which classes")),
//!     }
//! }
//!
//! let config = fedcast::scenario::reader::read_text("tau = 0.2", "example.toml", read)?;
//! assert_eq!(config, Config { tau: 0.2, prompt_len: 200, rebalance: Rebalance::Both });
//!
//! let error = fedcast::scenario::reader::read_text("tua = 0.2", "example.toml", read).unwrap_err();
//! assert!(error.to_string().contains("did you mean `tau`?"));
//!
//! let keys = describe(read);
//! assert_eq!(keys[2].default.as_deref(), Some("\"both\""));
//! assert_eq!(keys[2].choices[0], ("none".to_owned(), "not at all".to_owned()));
//! # Ok::<(), fedcast::scenario::ScenarioError>(())
//! ```

mod choice;
mod diagnostic;
mod explore;
mod json_schema;
mod node;
mod param;
mod readable;
mod report;
mod shared_forms;
mod slips;
mod suggest;
mod table;

pub use choice::Choice;
pub use diagnostic::{Diagnostic, SourceSpan};
pub use explore::{Catalogue, KnownKey, TableDoc, explore};
pub(crate) use fedcast_derive::{Choice, Keys};
pub use json_schema::{json_schema, meaning, table_schema};
pub use param::{KeyDoc, Param};
pub use readable::{Readable, ValueFault};
pub use shared_forms::with_shared_forms;
pub use suggest::nearest;
pub use table::TableReader;

pub(super) use diagnostic::{is_tame, message_and_help};
pub(super) use node::{Node, Table, TextSpan, TomlEntry, TomlValue};
pub(super) use report::{ReadingReport, SourceText};
pub(super) use slips::requoted;
pub(super) use table::DECIDES;

use super::ScenarioError;

/// Reads one TOML text as one table; errors call the file `name`.
///
/// # Errors
/// Returns all errors of the text.
pub fn read_text<C>(
    text: &str,
    name: &str,
    read: impl FnOnce(&mut TableReader<'_>) -> C,
) -> Result<C, ScenarioError> {
    read_document(text, name, "the scenario", read)
}

/// Reads a text like [`read_text`]; errors call the outermost table `document`, such as `the study`.
///
/// # Errors
/// Returns all errors of the text. After a syntax error no others are reported, because the values are guesses.
pub fn read_document<C>(
    text: &str,
    name: &str,
    document: &'static str,
    read: impl FnOnce(&mut TableReader<'_>) -> C,
) -> Result<C, ScenarioError> {
    let mut report = ReadingReport::default();
    let root = report.parse(SourceText::new(name, text));
    if !report.is_clean() {
        return Err(report.into_error());
    }
    let result = TableReader::document(&root, document, &mut report, read).0;
    match report.is_clean() {
        true => Ok(result),
        false => Err(report.into_error()),
    }
}

/// Returns the keys that `read` asks for, with their defaults, in order.
pub fn describe<C>(read: impl FnOnce(&mut TableReader<'_>) -> C) -> Vec<KeyDoc> {
    let mut report = ReadingReport::default();
    TableReader::of(&Node::empty_table(), &mut report, read).1.keys
}

/// Returns the value of `read` for an empty table: all defaults.
pub fn defaults<C>(read: impl FnOnce(&mut TableReader<'_>) -> C) -> C {
    let mut report = ReadingReport::default();
    TableReader::of(&Node::empty_table(), &mut report, read).0
}
