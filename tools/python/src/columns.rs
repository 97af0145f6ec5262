//! CSV tables of a run or study as Arrow columns, typed by the data dictionary.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use fedcast::report::column::{CellType, Column};
use fedcast::results::{Table, TableCell};
use fedcast::study;

use crate::errors::Failure;

/// Column that grows cell by cell; an empty cell is null.
enum Cells {
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
}

impl Cells {
    fn new(of: CellType) -> Cells {
        match of {
            CellType::Int => Cells::Int(Int64Builder::new()),
            CellType::Float => Cells::Float(Float64Builder::new()),
            CellType::Text => Cells::Text(StringBuilder::new()),
        }
    }

    /// Appends a cell; `None` if the cell does not have the column's type.
    fn push(&mut self, cell: &str) -> Option<()> {
        let cell = Some(cell).filter(|cell| !cell.is_empty());
        match self {
            Cells::Int(column) => column.append_option(cell.map(str::parse).transpose().ok()?),
            Cells::Float(column) => column.append_option(cell.map(str::parse).transpose().ok()?),
            Cells::Text(column) => column.append_option(cell),
        }
        Some(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Cells::Int(mut column) => Arc::new(column.finish()),
            Cells::Float(mut column) => Arc::new(column.finish()),
            Cells::Text(mut column) => Arc::new(column.finish()),
        }
    }
}

/// Returns the field of a column, with its unit and meaning as metadata.
pub fn field(column: &Column) -> Field {
    let of = match column.cells {
        CellType::Int => DataType::Int64,
        CellType::Float => DataType::Float64,
        CellType::Text => DataType::Utf8,
    };
    described(Field::new(column.name, of, true), column.unit, column.meaning)
}

/// Returns a field with this unit and meaning.
pub fn described(field: Field, unit: &str, meaning: &str) -> Field {
    let metadata = [("unit", unit), ("meaning", meaning)];
    let metadata = metadata.map(|(key, text)| (key.to_owned(), text.to_owned()));
    field.with_metadata(metadata)
}

/// Reads a CSV file with these columns.
///
/// # Errors
/// Returns an error if the file is missing, damaged, or has other columns.
pub fn read_csv(path: &Path, columns: &[Column]) -> Result<RecordBatch, Failure> {
    let damaged = |why: String| Failure::recording(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| damaged(error.to_string()))?;
    let mut reader = csv::Reader::from_reader(BufReader::new(file));
    let head = reader.headers().map_err(|error| damaged(error.to_string()))?;
    if !head.iter().eq(columns.iter().map(|column| column.name)) {
        let help = "the run was written by another version; `fedcast replay RUN -o DIR` writes its tables again";
        return Err(damaged(format!("the columns are not those of this version\n  help: {help}")));
    }
    let mut cells: Vec<Cells> = columns.iter().map(|column| Cells::new(column.cells)).collect();
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).map_err(|error| damaged(error.to_string()))? {
        for ((cells, column), cell) in cells.iter_mut().zip(columns).zip(&row) {
            let misfit =
                || format!("`{cell}` in column `{}` is no {}", column.name, column.cells.word());
            cells.push(cell).ok_or_else(|| damaged(misfit()))?;
        }
    }
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = cells.into_iter().map(Cells::finish).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).map_err(|error| damaged(error.to_string()))
}

/// Returns the columns of a table of a study, which the dictionary describes as `study/<file>`.
///
/// # Errors
/// Returns an error if the table has rows of several lengths, which the program does not write.
pub fn from_table(table: &Table) -> Result<RecordBatch, Failure> {
    let known: Vec<&Column> = study::files().iter().flat_map(|file| file.columns).collect();
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (at, (name, cells)) in table.columns().iter().enumerate() {
        let found = known.iter().find(|column| column.name == name);
        let (unit, meaning) = found.map_or(("", ""), |column| (column.unit, column.meaning));
        let values = table.rows().iter().map(|row| row.get(at));
        let (array, of): (ArrayRef, _) = match cells {
            CellType::Int => {
                let column: Int64Array = values.map(as_integer).collect();
                (Arc::new(column), DataType::Int64)
            }
            CellType::Float => {
                let column: Float64Array = values.map(as_number).collect();
                (Arc::new(column), DataType::Float64)
            }
            CellType::Text => {
                let column: StringArray = values.map(as_text).collect();
                (Arc::new(column), DataType::Utf8)
            }
        };
        fields.push(described(Field::new(name, of, true), unit, meaning));
        arrays.push(array);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
    batch.map_err(|error| Failure::recording(error.to_string()))
}

fn as_integer(cell: Option<&TableCell>) -> Option<i64> {
    if let Some(TableCell::Integer(number)) = cell { Some(*number) } else { None }
}

fn as_number(cell: Option<&TableCell>) -> Option<f64> {
    if let Some(TableCell::Number(number)) = cell { Some(*number) } else { None }
}

fn as_text(cell: Option<&TableCell>) -> Option<&str> {
    if let Some(TableCell::Text(text)) = cell { Some(text) } else { None }
}
