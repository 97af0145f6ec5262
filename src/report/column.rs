//! What a column of a table means: the entries of the data dictionary.
//!
//! The columns of a table are the fields of its row, which derives [`Columns`]; the same list gives the head of the CSV
//! file, `fedcast columns` and the types of JSON lines and of Parquet files.
//!
//! Columns count from 1 what happens one after the other (rounds, tasks, phases, periods); clients, participants,
//! classes and head rows keep the number they have in scenarios and data sets, from 0. Names say units: `bytes_…`
//! bytes, `…_s` seconds, `…_mb` and `…_mb_per_s` megabytes (10^6).

pub use fedcast_derive::Columns;
use serde::Serialize;

pub use crate::document::CellType;

/// A column: its name, type, unit and meaning. An empty cell always means that there is no such value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    pub name: &'static str,
    #[serde(rename = "type")]
    pub cells: CellType,
    /// `s`, `bytes`, `MB/s`, `share` (0 to 1), ...; empty for counts, numbers and words.
    pub unit: &'static str,
    /// One sentence.
    pub meaning: &'static str,
}

/// Row of a table; derived, its fields are the columns.
pub trait Columns {
    /// Columns in the order in which they are written.
    const COLUMNS: &'static [Column];
}

/// A column of whole numbers.
pub const fn int(name: &'static str, unit: &'static str, meaning: &'static str) -> Column {
    Column { name, cells: CellType::Int, unit, meaning }
}

/// A column of numbers with fractions.
pub const fn float(name: &'static str, unit: &'static str, meaning: &'static str) -> Column {
    Column { name, cells: CellType::Float, unit, meaning }
}

/// A column of words.
pub const fn text(name: &'static str, meaning: &'static str) -> Column {
    Column { name, cells: CellType::Text, unit: "", meaning }
}

/// The round, wherever a table has it.
pub const ROUND: Column = int("round", "", "round of the run, from 1");
/// The task of a round.
pub const TASK: Column = int("task", "", "task, from 1");
/// The name of a phase.
pub const PHASE: Column = text("phase", "name of the phase within the task");
/// A client.
pub const CLIENT: Column = int("client", "", "client, from 0 as in scenarios");
/// What was learned by the time of a test.
pub const LEARNT: Column = int("learnt", "", "task after which was tested, from 1");
/// The name of the class of a row.
pub const CLASS_NAME: Column =
    text("name", "name of the class as the data set gives it; empty where it is not recorded");
/// Right answers.
pub const CORRECT: Column = int("correct", "", "test samples answered rightly");
/// Test samples.
pub const TOTAL: Column = int("total", "", "test samples");
