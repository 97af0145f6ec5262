//! Data dictionary: every file of a run directory, with type, unit and meaning of its columns or keys.
//!
//! Tables use the lists of columns that their writers use; the keys of documents are derived from the types that are
//! written. Keys inside others are joined by dots; `<…>` stands for any key in that place and `[]` for the entries of
//! a list.
//!
//! ```
//! use fedcast::report::dictionary::{file, files};
//! let rounds = file("rounds.csv").expect("every table is in it");
//! let sent = rounds.columns.iter().find(|column| column.name == "bytes_sent_up");
//! assert_eq!(sent.map(|column| column.unit), Some("bytes"));
//! assert!(files().iter().all(|file| !file.about.is_empty()));
//! ```

mod documents;
mod json_schema;

pub use json_schema::{RunDocument, json_schema, printed_schema};
use serde::Serialize;

use super::answers::{ConfusionRow, PredictionRow};
use super::column::{Column, Columns};
use super::text_table::{TextTable, wrapped};
use super::{tables, wall_rounds};
use crate::document::Document;
use crate::experiment::names;

/// A file, or a folder of files, of a run directory.
#[derive(Clone, Copy, Debug, Serialize, Document)]
pub struct RunFile {
    /// Name in the run directory, such as `rounds.csv`.
    pub name: &'static str,
    /// Content, and the condition under which the file exists.
    pub about: &'static str,
    /// Columns or keys; empty if the file's content is not listed.
    pub columns: &'static [Column],
}

const fn entry(name: &'static str, about: &'static str, columns: &'static [Column]) -> RunFile {
    RunFile { name, about, columns }
}

/// Returns all files of a run directory, tables first.
pub fn files() -> Vec<RunFile> {
    let mut all = tables::files();
    all.push(entry(
        names::WALL,
        "wall time of every round on this machine; not part of the digests, not written by replay",
        wall_rounds::Row::COLUMNS,
    ));
    all.push(entry(
        names::CONFUSION,
        "true and predicted classes after every task; only with record.confusion = true; not in the journal, copied by \
         replay",
        ConfusionRow::COLUMNS,
    ));
    all.push(entry(
        names::PREDICTIONS,
        "predicted class of every test sample after every task; only with record.predictions = true; not in the \
         journal, copied by replay",
        PredictionRow::COLUMNS,
    ));
    all.extend(documents::all());
    all
}

/// Returns the file with this name.
pub fn file(name: &str) -> Option<RunFile> {
    files().into_iter().find(|file| file.name == name)
}

/// Returns the dictionary of the given files as text.
pub fn dictionary(files: &[RunFile]) -> String {
    let mut text = String::new();
    for file in files {
        text.push_str(&format!("{}\n{}", file.name, wrapped(file.about, 2)));
        if !file.columns.is_empty() {
            let head = ["column", "type", "unit", "meaning"];
            let mut table = TextTable::new(head).left(4).within(100).indented(2);
            for column in file.columns {
                table.row([column.name, column.cells.word(), column.unit, column.meaning]);
            }
            text.push_str(&table.render());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_file_and_no_column_is_explained_twice_or_not_at_all() {
        let all = files();
        let names: BTreeSet<&str> = all.iter().map(|file| file.name).collect();
        assert_eq!(names.len(), all.len());
        for file in all {
            let columns: BTreeSet<&str> = file.columns.iter().map(|column| column.name).collect();
            assert_eq!(columns.len(), file.columns.len(), "{}", file.name);
            assert!(file.columns.iter().all(|column| !column.meaning.is_empty()), "{}", file.name);
        }
    }

    #[test]
    fn heads_of_tables_stay() {
        let tables = files().into_iter().filter(|file| file.name.ends_with(".csv"));
        let head = |file: RunFile| {
            let names: Vec<&str> = file.columns.iter().map(|column| column.name).collect();
            format!("{}: {}", file.name, names.join(","))
        };
        let heads = tables.map(head).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(heads);
    }

    #[test]
    fn names_say_the_unit_that_the_dictionary_says() {
        let tables = files().into_iter().filter(|file| file.name.ends_with(".csv"));
        for (file, column) in tables.flat_map(|f| f.columns.iter().map(move |c| (f.name, c))) {
            let unit = match column.name {
                name if name.ends_with("_mb_per_s") => "MB/s",
                name if name.ends_with("_s") => "s",
                name if name == "bytes" || name.starts_with("bytes_") => "bytes",
                name if name.starts_with("accuracy") => "share",
                "response_entropy" => "nats",
                _ => "",
            };
            assert_eq!(column.unit, unit, "{file}: {}", column.name);
        }
    }
}
