//! Columns of tables: the entries of the data dictionary.
//!
//! The columns of a table are the fields of its row, which derives [`Columns`]; the same list gives the head of the CSV
//! file, `fedcast columns` and the types of JSON lines and of Parquet files.
//!
//! Rounds, tasks, phases and stages count from 1; clients, participants, classes and head rows keep the number that
//! they have in scenarios and data sets, from 0. Names give units: `bytes_…` bytes, `…_s` seconds, `…_mb` and
//! `…_mb_per_s` megabytes (10^6).

pub use fedcast_derive::Columns;
use serde::Serialize;

use crate::document::Document;

pub use crate::document::CellType;

/// Column of a table: name, type, unit and meaning. An empty cell means that there is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Document)]
pub struct Column {
    /// Name in the head of the table; of a value in a JSON document, its path with dots.
    pub name: &'static str,
    /// Type of the cells.
    #[serde(rename = "type")]
    pub cells: CellType,
    /// Unit: `s`, `bytes`, `MB/s`, `share` (0 to 1), ...; empty for counts, numbers and words.
    pub unit: &'static str,
    /// Meaning in one sentence.
    pub meaning: &'static str,
}

/// Row of a table whose fields are the columns; derive it.
pub trait Columns {
    /// Columns in the order in which they are written.
    const COLUMNS: &'static [Column];
}

/// Returns a column of integers.
pub const fn int(name: &'static str, unit: &'static str, meaning: &'static str) -> Column {
    Column { name, cells: CellType::Int, unit, meaning }
}

/// Returns a column of floating-point numbers.
pub const fn float(name: &'static str, unit: &'static str, meaning: &'static str) -> Column {
    Column { name, cells: CellType::Float, unit, meaning }
}

/// Returns a column of words.
pub const fn text(name: &'static str, meaning: &'static str) -> Column {
    Column { name, cells: CellType::Text, unit: "", meaning }
}

/// Round of a row, in every table that has one.
pub const ROUND: Column = int("round", "", "round of the run, from 1");
/// Task of a round.
pub const TASK: Column = int("task", "", "task, from 1");
/// Name of a phase.
pub const PHASE: Column = text("phase", "name of the phase within the task");
/// Client of a row.
pub const CLIENT: Column = int("client", "", "client, from 0 as in scenarios");
/// Task after which a test took place.
pub const AFTER_TASK: Column =
    int("after_task", "", "task after which the model was tested, from 1");
/// Name of the class of a row.
pub const CLASS_NAME: Column =
    text("name", "name of the class as the data set gives it; empty where it is not recorded");
/// Correct predictions.
pub const CORRECT: Column = int("correct", "", "test samples with a correct prediction");
/// Number of test samples.
pub const TOTAL: Column = int("total", "", "test samples");
