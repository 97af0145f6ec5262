//! Comma-separated tables, written row by row, so that an interrupted run leaves whole rows.
//!
//! A row is a struct whose fields are the columns in order, so no value can get into the wrong column.

use std::io::{self, Write};
use std::marker::PhantomData;

use csv::{ReaderBuilder, Writer, WriterBuilder};
use serde::{Serialize, Serializer};

use super::column::Columns;
use crate::document::Document;

/// Writer of a table.
pub struct Csv<W: Write, R> {
    out: Writer<W>,
    row: PhantomData<fn(&R)>,
}

impl<W: Write, R: Serialize + Columns> Csv<W, R> {
    /// Writes the header: the names of the row's columns.
    pub fn new(out: W) -> io::Result<Csv<W, R>> {
        let mut out = WriterBuilder::new().has_headers(false).from_writer(out);
        out.write_record(R::COLUMNS.iter().map(|column| column.name))?;
        out.flush()?;
        Ok(Csv { out, row: PhantomData })
    }

    /// Continues a table whose header and first rows are written already.
    pub fn after(out: W) -> Csv<W, R> {
        let out = WriterBuilder::new().has_headers(false).from_writer(out);
        Csv { out, row: PhantomData }
    }

    /// Returns the output with all its rows.
    pub fn into_inner(self) -> io::Result<W> {
        self.out.into_inner().map_err(|error| error.into_error())
    }

    /// Returns a reference to the output.
    pub fn get_ref(&self) -> &W {
        self.out.get_ref()
    }

    /// Writes one row and flushes it.
    pub fn row(&mut self, row: &R) -> io::Result<()> {
        self.out.serialize(row)?;
        self.out.flush()
    }
}

/// Returns the cells of a row as they are written in a table.
pub(super) fn cells<R: Serialize>(row: &R) -> io::Result<Vec<String>> {
    let mut scratch = WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    scratch.serialize(row)?;
    let written = scratch.into_inner().map_err(|error| error.into_error())?;
    let mut reader = ReaderBuilder::new().has_headers(false).from_reader(&written[..]);
    let record = reader.records().next().transpose()?.unwrap_or_default();
    Ok(record.iter().map(str::to_owned).collect())
}

/// Number written as the shortest text that reads back to the same bits.
///
/// Examples are `1`, not `1.0`, and `8.4e29` in place of a long row of zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Document)]
pub struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match is_far(self.0) {
            true => serializer.collect_str(&format_args!("{:e}", self.0)),
            false => serializer.collect_str(&self.0),
        }
    }
}

/// Returns the text of a number in every table.
pub(crate) fn number(number: f64) -> String {
    if is_far(number) { format!("{number:e}") } else { number.to_string() }
}

/// Returns true if a number is so large or small that it is written with an exponent.
fn is_far(number: f64) -> bool {
    let size = number.abs();
    number.is_finite() && number != 0.0 && !(1e-5..=1e15).contains(&size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Columns, Serialize)]
    struct ExampleRow {
        /// A client.
        who: u32,
        /// A word.
        why: &'static str,
        /// A number.
        share: Option<Number>,
    }

    /// Counts the pieces that were written.
    #[derive(Default)]
    struct WrittenPieces(Vec<String>);

    impl Write for WrittenPieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn columns_are_fields_and_every_row_is_handed_over_whole() {
        let mut pieces = WrittenPieces::default();
        let mut csv = Csv::new(&mut pieces).unwrap();
        csv.row(&ExampleRow { who: 1, why: "lost, \"late\"", share: None }).unwrap();
        csv.row(&ExampleRow { who: 2, why: "", share: Some(Number(1.0)) }).unwrap();
        drop(csv);
        assert_eq!(pieces.0, ["who,why,share\n", "1,\"lost, \"\"late\"\"\",\n", "2,,1\n"]);
    }

    #[test]
    fn far_numbers_have_an_exponent_and_others_none() {
        let numbers = [8.386_575_777_712_502e29, -2e-6, 1e15, 1e-5, -0.25, 0.0].map(number);
        assert_eq!(
            numbers,
            ["8.386575777712502e29", "-2e-6", "1000000000000000", "0.00001", "-0.25", "0"]
        );
        assert_eq!([f64::INFINITY, f64::NAN].map(number), ["inf", "NaN"]);
    }

    #[test]
    fn numbers_read_back_to_the_same_bits() {
        for value in [0.1 + 0.2, 1e-9, 12.0, f64::INFINITY, -8.386e29, 5e-324, 0.0] {
            let mut csv = WriterBuilder::new().has_headers(false).from_writer(Vec::new());
            csv.serialize(Number(value)).unwrap();
            let text = String::from_utf8(csv.into_inner().unwrap()).unwrap();
            assert_eq!(text, format!("{}\n", number(value)));
            assert_eq!(text.trim().parse(), Ok(value));
        }
    }
}
