//! `fedcast migrate`: new names of keys and values in scenario and study files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::failure::{CliError, color};
use super::stderr::print_styled;
use super::{Exit, OutputFormat, print, print_json};
use crate::document::Document;
use crate::experiment::write_atomically;
use crate::files::{self, FileKind};
use crate::scenario::migration::{Migrated, RenamedName, migrate};
use crate::scenario::reader::Diagnostic;
use crate::scenario::{GivenFolder, ScenarioError};

/// Rename keys and values of scenario and study files from schema 1 to schema 2
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast migrate a.toml                     rename what a.toml has of schema 1
  fedcast migrate scenarios/*.toml --check   print what would change

Comments and layout stay. A file without `schema` is the base of others and migrated, too; bases
that a file extends are not looked for: name them as well. A file of schema 2 stays as it is. With
--check the exit code is 3 if a file has old names; it is 3 in any case if a file is no valid TOML,
and such a file is left alone.")]
pub struct MigrateArgs {
    /// Scenario and study files, and bases
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Print changes and write no file
    #[arg(long)]
    pub check: bool,
    /// Format of the results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Migrated files as JSON.
#[derive(Serialize, Document)]
pub(super) struct MigratedFiles<'a> {
    /// Files, in the given order.
    files: &'a [MigratedFile<'a>],
}

/// Result for one file.
#[derive(Serialize, Document)]
struct MigratedFile<'a> {
    /// Path as given.
    file: &'a Path,
    /// True if the file was written.
    written: bool,
    /// Renamed keys and values.
    changes: Vec<RenamedName>,
    /// Errors, for which the file was left alone.
    errors: Vec<Diagnostic>,
}

/// Migrates every file.
pub fn execute(args: &MigrateArgs) -> Result<Exit, CliError> {
    let is_human = args.format == OutputFormat::Human;
    let mut results = Vec::new();
    for file in &args.files {
        let (written, changes, errors) = match migrated_file(file, args.check) {
            Ok((written, changes)) => (written, changes, Vec::new()),
            Err(error) => {
                if is_human {
                    print_styled(&error.render(color()));
                }
                (false, Vec::new(), error.diagnostics())
            }
        };
        if is_human && errors.is_empty() {
            print(&line(file, written, &changes))?;
        }
        results.push(MigratedFile { file, written, changes, errors });
    }
    if !is_human {
        print_json(&MigratedFiles { files: &results })?;
    }
    let is_old = |result: &MigratedFile<'_>| args.check && !result.changes.is_empty();
    let fails = results.iter().any(|result| !result.errors.is_empty() || is_old(result));
    Ok(if fails { Exit::Scenario } else { Exit::Done })
}

/// Migrates one file; `check` writes nothing. Returns true if it was written, and the renamed names.
fn migrated_file(file: &Path, check: bool) -> Result<(bool, Vec<RenamedName>), ScenarioError> {
    let text = read(file)?;
    let Migrated { text, changes } = migrate(&text, &file.display().to_string())?;
    let written = !changes.is_empty() && !check;
    if written {
        let failed = |source| ScenarioError::Unwritable { path: file.to_owned(), source };
        replace(file, &text).map_err(failed)?;
    }
    Ok((written, changes))
}

/// Returns the line of a file.
fn line(file: &Path, written: bool, changes: &[RenamedName]) -> String {
    let shown = file.display();
    if changes.is_empty() {
        return format!("{shown}: unchanged\n");
    }
    let change = |RenamedName { old, new, .. }: &RenamedName| format!("{old} -> {new}");
    let changes: Vec<String> = changes.iter().map(change).collect();
    let word = if written { "migrated" } else { "would change" };
    format!("{shown}: {word}: {}\n", changes.join(", "))
}

/// Returns the text of a file as it is, with its line ends.
fn read(path: &Path) -> Result<String, ScenarioError> {
    let unreadable = |source: io::Error, help: String| ScenarioError::Unreadable {
        path: path.to_owned(),
        source,
        help,
    };
    if let Some(GivenFolder { what, help }) = GivenFolder::at(path, "scenario") {
        return Err(unreadable(io::Error::other(what), help));
    }
    let bytes = files::read(path, FileKind::Scenario)
        .map_err(|error| unreadable(error, "name files that exist and may be read".to_owned()))?;
    let not_text = |error| unreadable(error, "a scenario is a UTF-8 text in TOML".to_owned());
    files::text_of(&bytes).map_err(not_text)?;
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    String::from_utf8(bytes).map_err(|error| not_text(invalid(error)))
}

/// Replaces the text of a file, or of the file that a link leads to; permissions stay.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let file = path.canonicalize()?;
    let permissions = fs::metadata(&file)?.permissions();
    if permissions.readonly() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
    }
    write_atomically(&file, text.as_bytes()).map_err(io::Error::other)?;
    fs::set_permissions(&file, permissions)
}
