//! Journal as columns, read without building events.
//!
//! A line is parsed once, straight into a row; keys without a column go to `more` as JSON. Blocks of lines are parsed
//! by several threads. Seals and digests are not checked here: `fedcast replay` and `Run.verify` do that.

mod line;
mod rows;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::thread;

use arrow_array::RecordBatch;
use fedcast::experiment::names;
use pyo3::prelude::*;

use self::rows::Rows;
use crate::attend::without_gil;
use crate::errors::Failure;
use crate::table::Table;

/// Approximate size of a block that one thread parses, in bytes.
const BLOCK: usize = 4 << 20;

/// Read the journal of a run.
#[pyfunction]
pub fn events(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    let batches = without_gil(py, || read(&path.join(names::EVENTS)))?;
    Ok(Table::new(Rows::schema(), batches))
}

fn read(path: &Path) -> Result<Vec<RecordBatch>, Failure> {
    let unreadable = |why: String| Failure::recording(format!("{}: {why}", path.display()));
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut file = BufReader::new(file);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (mut batches, mut lines) = (Vec::new(), 0);
    loop {
        let mut blocks = Vec::new();
        for _ in 0..threads {
            let block = next_block(&mut file).map_err(|error| unreadable(error.to_string()))?;
            if block.is_empty() {
                break;
            }
            blocks.push(block);
        }
        if blocks.is_empty() {
            return Ok(batches);
        }
        let parsed: Vec<_> = thread::scope(|scope| {
            let parse = |block| scope.spawn(move || Rows::parse(block));
            let parsing: Vec<_> = blocks.iter().map(|block| parse(&block[..])).collect();
            parsing.into_iter().map(|parsed| parsed.join()).collect()
        });
        for parsed in parsed {
            let parsed = parsed.map_err(|panic| Failure::panicked(&*panic))?;
            let (rows, read) = parsed.map_err(|error| {
                unreadable(format!("line {}: {}", lines + error.line, error.why))
            })?;
            lines += read;
            batches.push(rows);
        }
    }
}

/// Returns the next complete lines, about [`BLOCK`] bytes; empty at the end.
fn next_block(file: &mut BufReader<File>) -> std::io::Result<Vec<u8>> {
    let mut block = Vec::with_capacity(BLOCK + (1 << 16));
    file.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
    if block.len() == BLOCK && !block.ends_with(b"\n") {
        file.read_until(b'\n', &mut block)?;
    }
    Ok(block)
}
