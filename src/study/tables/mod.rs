//! Tables of a study: one row per run, all rounds, means with standard deviations, paired differences.
//!
//! | file | holds |
//! |---|---|
//! | `cells.csv`, `cells.parquet` | one row per run: axes, seeds, status, every metric, bytes by kind, digests |
//! | `rounds.csv`, `rounds.parquet` | the rounds of all runs, with their axes |
//! | `table.md`, `table.tex`, `table.csv` | one row per point: mean and standard deviation, published numbers |
//! | `paired.csv` | differences from the baseline, paired by seed |
//!
//! All of them are computed from the runs alone and are written as a whole, so that merged shards give the same files
//! as one process. Only the columns `wall_s` and `peak_memory_mb` depend on the machine.

mod cells;
mod grid;
mod main_table;
mod paired;
mod published;
mod rounds;

use std::path::Path;

pub use grid::{GridEntry, PublishedGrid, PublishedGrids};
pub use main_table::MainTable;
pub use paired::{CellDifference, differences};
pub use published::PublishedValue;

use super::collect::Outcomes;
use super::directory::StudyDirectory;
use super::{Axis, Point, STUDY_FILE, Study, StudyError};
use crate::experiment::write_atomically;
use crate::report::column::CellType;
use crate::results::{Table, TableCell};

/// Name of the main table as CSV.
pub const TABLE_FILE: &str = "table.csv";

/// Writes all tables of a study.
///
/// # Errors
/// Fails if a run's tables cannot be read, or a file cannot be written.
pub fn write(
    study: &Study,
    directory: &StudyDirectory,
    outcomes: &Outcomes,
) -> Result<(), StudyError> {
    let _held = directory.hold_tables()?;
    let put = |name: &str, bytes: &[u8]| write_atomically(&directory.path().join(name), bytes);
    put(STUDY_FILE, study.to_effective_toml(directory.path()).as_bytes())?;
    let both = |name: &str, table: &Table| -> Result<(), StudyError> {
        put(&format!("{name}.csv"), table.to_csv().as_bytes())?;
        Ok(put(&format!("{name}.parquet"), &table.to_parquet()?)?)
    };
    both("cells", &cells_table(study, outcomes))?;
    both("rounds", &rounds_table(study, outcomes)?)?;
    let table = MainTable::of(study, outcomes);
    put(TABLE_FILE, table.to_table().to_csv().as_bytes())?;
    put("table.tex", table.to_tex().as_bytes())?;
    let differences = differences(study, outcomes);
    let mut markdown = table.to_markdown();
    markdown.push_str(&paired::to_markdown(study, &differences));
    put("table.md", markdown.as_bytes())?;
    put("paired.csv", paired::table(study, &differences).to_csv().as_bytes())?;
    Ok(())
}

/// Returns the rows of `cells.csv`: one per run.
pub fn cells_table(study: &Study, outcomes: &Outcomes) -> Table {
    cells::table(study, outcomes)
}

/// Returns the rows of `rounds.csv`: the rounds of all complete runs.
///
/// # Errors
/// Fails if a run's tables cannot be read.
pub fn rounds_table(study: &Study, outcomes: &Outcomes) -> Result<Table, StudyError> {
    Ok(rounds::table(study, outcomes)?)
}

/// Returns the rows of `paired.csv`: differences from the baseline, paired by seed.
pub fn paired_table(study: &Study, outcomes: &Outcomes) -> Table {
    paired::table(study, &differences(study, outcomes))
}

/// Returns the columns that identify the point of a row.
fn point_columns(study: &Study) -> Vec<(String, CellType)> {
    let axes = study.axes.iter().map(|axis| (axis.name.clone(), kind_of(axis)));
    std::iter::once(("label".to_owned(), CellType::Text)).chain(axes).collect()
}

/// Returns the entries of a point in the columns of [`point_columns`].
fn point_cells(study: &Study, point: &Point) -> Vec<TableCell> {
    let axes = (0..study.axes.len()).map(|axis| match study.arm(point, axis) {
        None => TableCell::Empty,
        Some(arm) => match &arm.value {
            Some(toml::Value::Integer(number)) => TableCell::Integer(*number),
            Some(toml::Value::Float(number)) => TableCell::Number(*number),
            _ => TableCell::Text(arm.label.clone()),
        },
    });
    std::iter::once(TableCell::Text(study.label(point))).chain(axes).collect()
}

/// Returns the type of an axis' values.
fn kind_of(axis: &Axis) -> CellType {
    let all = |fits: fn(&toml::Value) -> bool| {
        axis.arms.iter().all(|arm| arm.value.as_ref().is_some_and(fits))
    };
    if all(toml::Value::is_integer) {
        CellType::Int
    } else if all(|value| value.is_integer() || value.is_float()) {
        CellType::Float
    } else {
        CellType::Text
    }
}

/// Formats a path with `/` on every system.
fn portable(path: &Path) -> String {
    path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests;
