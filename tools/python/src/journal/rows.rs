//! Lines of the journal as Arrow columns.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder};
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int8Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::line::Line;
use crate::columns::described;

/// Types of the events, frequent ones first.
const EVENTS: &[&str] = &[
    "frame_charged",
    "client_trained",
    "client_profiled",
    "round_opened",
    "round_closed",
    "evaluated",
    "client_failed",
    "client_skipped",
    "update_rejected",
    "update_stale",
    "update_poisoned",
    "run_started",
    "task_started",
    "task_delayed",
    "phase_started",
    "round_delayed",
    "secure_sum_opened",
    "server_restarted",
    "federated_bias_measured",
    "task_ended",
    "run_ended",
];
const DIRECTIONS: &[&str] = &["down", "up"];
const OUTCOMES: &[&str] = &["delivered", "late", "lost", "duplicate"];
const KINDS: &[&str] = &["client", "dummy_client", "load_client"];

/// Type of a column.
#[derive(Clone, Copy)]
enum Of {
    Int,
    Float,
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// Names, types, units and meanings of the columns; the last two are metadata of the fields.
const COLUMNS: &[(&str, Of, &str, &str)] = &[
    ("seq", Of::Int, "", "number of the entry, from 0"),
    ("at", Of::Int, "ns", "virtual time"),
    ("type", Of::Word(EVENTS), "", "type of the event"),
    ("round", Of::Int, "", "round, from 0 as in the journal"),
    ("task", Of::Int, "", "task, from 0 as in the journal"),
    ("phase", Of::Int, "", "phase within the task, from 0"),
    ("client", Of::Int, "", "client, from 0"),
    ("participant", Of::Int, "", "participant in the round, from 0"),
    ("direction", Of::Word(DIRECTIONS), "", "direction of a frame: down to the client, up from it"),
    ("outcome", Of::Word(OUTCOMES), "", "outcome of a frame"),
    ("kind", Of::Word(KINDS), "", "kind of participant, of a frame"),
    ("bytes", Of::Int, "bytes", "bytes of a whole frame; messages() has them by kind"),
    ("sent", Of::Int, "bytes", "bytes of a frame that crossed the link"),
    ("latency", Of::Int, "ns", "virtual time from sending to the outcome of a frame"),
    ("samples", Of::Int, "", "samples of a training"),
    ("work_ns", Of::Int, "ns", "virtual time of local work"),
    ("state_bytes", Of::Int, "bytes", "bytes that the client keeps after a training"),
    ("aggregated", Of::Int, "", "uploads that a closed round aggregated"),
    ("stale", Of::Int, "", "uploads of earlier rounds among them"),
    ("reason", Of::Text, "", "reason of a failure, a rejection or the end"),
    ("loss", Of::Float, "", "loss at the end of a training"),
    ("correct", Of::Int, "", "correct predictions of an evaluation"),
    ("total", Of::Int, "", "test samples of an evaluation"),
    ("digest", Of::Text, "", "digest of the tensors that the event is about"),
    ("more", Of::Text, "", "JSON object of all other keys of the event and its numbers"),
];

/// Value of a column in a row.
enum Cell<'a> {
    Int(Option<u64>),
    Float(Option<f64>),
    Text(Option<&'a str>),
}

/// Column that grows row by row.
enum Cells {
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
    Word(Vec<Option<i8>>, &'static [&'static str]),
}

impl Cells {
    fn new(of: Of) -> Cells {
        match of {
            Of::Int => Cells::Int(Int64Builder::new()),
            Of::Float => Cells::Float(Float64Builder::new()),
            Of::Text => Cells::Text(StringBuilder::new()),
            Of::Word(words) => Cells::Word(Vec::new(), words),
        }
    }

    /// Appends a value.
    ///
    /// # Errors
    /// Returns an error for an unknown word.
    fn push(&mut self, cell: &Cell<'_>) -> Result<(), String> {
        match (self, cell) {
            (Cells::Int(column), Cell::Int(value)) => {
                let value = value.map(i64::try_from).transpose();
                column.append_option(value.map_err(|error| error.to_string())?);
            }
            (Cells::Float(column), Cell::Float(value)) => column.append_option(*value),
            (Cells::Text(column), Cell::Text(value)) => column.append_option(*value),
            (Cells::Word(keys, words), Cell::Text(value)) => {
                let place = |word: &str| {
                    let known = words.iter().position(|known| *known == word);
                    known.ok_or_else(|| format!("unknown word `{word}`"))
                };
                keys.push(value.map(place).transpose()?.map(|at| at as i8));
            }
            _ => return Err("a value in the wrong column".to_owned()),
        }
        Ok(())
    }

    fn finish(self) -> Result<ArrayRef, String> {
        Ok(match self {
            Cells::Int(mut column) => Arc::new(column.finish()),
            Cells::Float(mut column) => Arc::new(column.finish()),
            Cells::Text(mut column) => Arc::new(column.finish()),
            Cells::Word(keys, words) => {
                let (keys, words) = (Int8Array::from(keys), StringArray::from(words.to_vec()));
                let array = DictionaryArray::<Int8Type>::try_new(keys, Arc::new(words));
                Arc::new(array.map_err(|error| error.to_string())?)
            }
        })
    }
}

/// Error of a line, whose number counts from 1 within its block.
pub struct LineError {
    pub line: usize,
    pub why: String,
}

/// Rows of a block of lines.
pub struct Rows(Vec<Cells>);

impl Rows {
    /// Returns the schema that every block has.
    pub fn schema() -> SchemaRef {
        static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
            let fields = COLUMNS.iter().map(|(name, of, unit, meaning)| {
                let of = match of {
                    Of::Int => DataType::Int64,
                    Of::Float => DataType::Float64,
                    Of::Text => DataType::Utf8,
                    Of::Word(_) => {
                        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))
                    }
                };
                described(Field::new(*name, of, true), unit, meaning)
            });
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        });
        Arc::clone(&SCHEMA)
    }

    /// Parses whole lines; returns their rows and the number of lines.
    ///
    /// # Errors
    /// Fails at the first line that is no entry of a journal.
    pub fn parse(block: &[u8]) -> Result<(RecordBatch, usize), LineError> {
        let mut rows = Rows(COLUMNS.iter().map(|(_, of, ..)| Cells::new(*of)).collect());
        let mut read = 0;
        for line in block.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            read += 1;
            let failed = |why: String| LineError { line: read, why };
            let text = std::str::from_utf8(line).map_err(|error| failed(error.to_string()))?;
            let line = Line::parse(text).map_err(|error| failed(error.to_string()))?;
            // Seals are not rows.
            if let Some(line) = line {
                rows.push(&line).map_err(failed)?;
            }
        }
        let failed = |why: String| LineError { line: read, why };
        let arrays = rows.0.into_iter().map(Cells::finish).collect::<Result<_, _>>();
        let batch = RecordBatch::try_new(Rows::schema(), arrays.map_err(failed)?);
        let failed = |why: String| LineError { line: read, why };
        Ok((batch.map_err(|error| failed(error.to_string()))?, read))
    }

    fn push(&mut self, line: &Line<'_>) -> Result<(), String> {
        let more = more(&line.more);
        // By default the participant of a frame is a client, which lines leave out.
        let kind = line.kind.or_else(|| line.direction.map(|_| KINDS[0]));
        let cells = [
            Cell::Int(Some(line.seq)),
            Cell::Int(Some(line.at)),
            Cell::Text(line.event),
            Cell::Int(line.round),
            Cell::Int(line.task),
            Cell::Int(line.phase),
            Cell::Int(line.client),
            Cell::Int(line.participant),
            Cell::Text(line.direction),
            Cell::Text(line.outcome),
            Cell::Text(kind),
            Cell::Int(line.bytes),
            Cell::Int(line.sent),
            Cell::Int(line.latency),
            Cell::Int(line.samples),
            Cell::Int(line.work_ns),
            Cell::Int(line.state_bytes),
            Cell::Int(line.aggregated),
            Cell::Int(line.stale),
            Cell::Text(line.reason.as_deref()),
            Cell::Float(line.loss),
            Cell::Int(line.correct),
            Cell::Int(line.total),
            Cell::Text(line.digest),
            Cell::Text(more.as_deref()),
        ];
        self.0.iter_mut().zip(&cells).try_for_each(|(column, cell)| column.push(cell))
    }
}

/// Returns the JSON object of keys without a column; `None` if there are none.
fn more(keys: &[(&str, &str)]) -> Option<String> {
    let (first, rest) = keys.split_first()?;
    let mut object = format!("{{\"{}\":{}", first.0, first.1);
    rest.iter().for_each(|(key, value)| object.push_str(&format!(",\"{key}\":{value}")));
    object.push('}');
    Some(object)
}
