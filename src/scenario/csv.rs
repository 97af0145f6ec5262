//! Reader of CSV files that a scenario names. Cells keep their places for error messages.
//!
//! Cells are separated by commas, trimmed, and may be in double quotes. The first line that is neither empty nor begins
//! with `#` is the header.

use csv::{ReaderBuilder, StringRecord, Trim};

use super::reader::is_tame;

/// Cell and its place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CsvCell<'a> {
    pub text: &'a str,
    /// Offset of the first byte.
    pub start: usize,
}

impl CsvCell<'_> {
    /// Returns the offset after the last byte.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// Problem of a file and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CsvFault {
    pub start: usize,
    pub end: usize,
    pub message: String,
    pub label: String,
    pub help: String,
}

impl CsvFault {
    pub fn at(cell: CsvCell<'_>, message: String, label: &str, help: &str) -> CsvFault {
        let (start, end) = (cell.start, cell.end());
        CsvFault { start, end, message, label: label.to_owned(), help: help.to_owned() }
    }
}

/// Returns the cells of each line that is neither empty nor a comment.
pub(super) fn rows(text: &str) -> impl Iterator<Item = Vec<CsvCell<'_>>> {
    let mut reader = ReaderBuilder::new();
    let reader = reader.has_headers(false).flexible(true).comment(Some(b'#')).trim(Trim::All);
    let mut reader = reader.from_reader(text.as_bytes());
    let records = std::iter::from_fn(move || {
        let mut record = StringRecord::new();
        // Reading cannot fail: rows may have any length, and the text is valid UTF-8.
        reader.read_record(&mut record).unwrap_or(false).then_some(record)
    });
    records.map(|record| cells(text, &record)).filter(|row| {
        let first = row.first().map_or("", |cell| cell.text);
        !first.starts_with('#') && (row.len() > 1 || !first.is_empty())
    })
}

/// Returns the cells of a record with their places; a cell with quotes inside is shown as written.
fn cells<'a>(text: &'a str, record: &StringRecord) -> Vec<CsvCell<'a>> {
    let start = record.position().map_or(0, |position| position.byte() as usize);
    let mut at = behind_comments(text, start);
    let mut cell = |found: &str| {
        let doubled = found.contains('"').then(|| found.replace('"', "\"\""));
        let place = |written: &str| Some((text[at..].find(written)?, written.len()));
        // The cell is in the text as it is, or with its quotes doubled.
        let written = [Some(found), doubled.as_deref()].into_iter().flatten();
        let nearest = written.filter_map(place).min();
        let (skipped, length) = nearest.unwrap_or_default();
        let start = at + skipped;
        at = start + length;
        CsvCell { text: &text[start..at], start }
    };
    record.iter().map(&mut cell).collect()
}

/// Returns the first byte of the next line that is neither empty nor a comment.
fn behind_comments(text: &str, start: usize) -> usize {
    let mut at = start;
    for line in text[start..].split_inclusive('\n') {
        if !line.trim().is_empty() && !line.starts_with('#') {
            break;
        }
        at += line.len();
    }
    at
}

/// Returns the indices of columns in the header.
pub(super) fn columns<const N: usize>(
    header: &[CsvCell<'_>],
    names: [&str; N],
) -> Result<[usize; N], CsvFault> {
    let mut places = [0; N];
    for (place, name) in places.iter_mut().zip(names) {
        let found = header.iter().position(|cell| cell.text == name);
        *place = found.ok_or_else(|| no_column(header, name, &names))?;
    }
    Ok(places)
}

fn no_column(header: &[CsvCell<'_>], name: &str, needed: &[&str]) -> CsvFault {
    let found = header.iter().map(|cell| cell.text).collect::<Vec<_>>().join(", ");
    let message = format!("there is no column `{name}`");
    let separated = header.len() == 1 && found.contains([';', '\t']);
    let help = match is_tame(&found) {
        _ if separated => "cells must be separated by commas".to_owned(),
        true => format!("the file has {found}; expected {}", needed.join(", ")),
        false => "the first line is not the header of a table; check the path".to_owned(),
    };
    CsvFault::at(header[0], message, "the header", &help)
}

/// Returns a cell of a line, or an error if the line has fewer or more cells than the header.
pub(super) fn cell<'a>(
    row: &[CsvCell<'a>],
    place: usize,
    header: usize,
) -> Result<CsvCell<'a>, CsvFault> {
    row.get(place).copied().ok_or_else(|| {
        let message = format!("this line has {} cells, but the header has {header}", row.len());
        CsvFault::at(row[row.len() - 1], message, "the last cell", "add the missing cells")
    })
}

/// Returns the error of a file without a header, or without a line below it.
pub(super) fn nothing(text: &str, what: &str) -> CsvFault {
    CsvFault {
        start: 0,
        end: text.lines().next().map_or(0, str::len),
        message: format!("the file has no {what}"),
        label: "nothing to read".to_owned(),
        help: "write a header and below it one line per entry".to_owned(),
    }
}

/// Parses a cell as a number that `admits` accepts; `words` describes the valid numbers.
pub(super) fn number(
    cell: CsvCell<'_>,
    admits: impl FnOnce(f64) -> bool,
    words: &str,
) -> Result<f64, CsvFault> {
    match cell.text.parse::<f64>() {
        Ok(value) if value.is_finite() && admits(value) => Ok(value),
        Ok(_) => Err(CsvFault::at(
            cell,
            format!("a value here must be finite and {words}"),
            "out of range",
            "correct the file",
        )),
        Err(_) => Err(CsvFault::at(
            cell,
            match is_tame(cell.text) {
                true => format!("`{}` is not a number", cell.text),
                false => "this is not a number".to_owned(),
            },
            "not a number",
            "write numbers such as 12.5, without units",
        )),
    }
}

/// Reads the numbers of one column; of the first if none is named.
pub(super) fn numbers(
    text: &str,
    name: Option<&str>,
    admits: impl Fn(f64) -> bool,
    words: &str,
) -> Result<Vec<f64>, CsvFault> {
    let mut rows = rows(text);
    let header = rows.next().ok_or_else(|| nothing(text, "header"))?;
    let place = name.map_or(Ok(0), |name| columns(&header, [name]).map(|[place]| place))?;
    let mut values = Vec::new();
    for row in rows {
        let cell = cell(&row, place, header.len())?;
        values.push(number(cell, &admits, words)?);
    }
    if values.is_empty() { Err(nothing(text, "values")) } else { Ok(values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_know_where_they_stand() {
        let text = "# speeds\r\nclient, ms\r\n\r\n0, 12.5 \n1,7";
        let all: Vec<Vec<CsvCell<'_>>> = rows(text).collect();
        assert_eq!(all.len(), 3);
        assert!(all.iter().flatten().all(|c| &text[c.start..c.end()] == c.text), "{all:?}");
        assert_eq!(all[1][1].text, "12.5");
        assert_eq!(numbers(text, Some("ms"), |v| v > 0.0, "above 0"), Ok(vec![12.5, 7.0]));
        assert_eq!(numbers(text, None, |v| v >= 0.0, "at least 0"), Ok(vec![0.0, 1.0]));
    }

    #[test]
    fn quotes_are_no_part_of_a_cell_and_keep_commas() {
        let text =
            "\"\",\"sample\",\"client\"\n\"1\",\"7\",\"a, b\"\n\"2\" , 8,\"say \"\"c\"\"\"\n";
        let all: Vec<Vec<CsvCell<'_>>> = rows(text).collect();
        let texts =
            |row: &[CsvCell<'_>]| row.iter().map(|cell| cell.text.to_owned()).collect::<Vec<_>>();
        assert_eq!(columns(&all[0], ["client", "sample"]), Ok([2, 1]));
        assert_eq!(texts(&all[1]), ["1", "7", "a, b"]);
        assert_eq!(texts(&all[2]), ["2", "8", "say \"\"c\"\""]);
        assert!(all.iter().flatten().all(|c| &text[c.start..c.end()] == c.text), "{all:?}");
        assert_eq!(all[1][1].start, text.find('7').unwrap());
    }

    #[test]
    fn words_of_comments_are_no_places_of_cells() {
        let text = "# client 7\n\n  # another, 7\nclient,ms\n# 7\n7,x\n";
        let fault = numbers(text, Some("ms"), |v| v > 0.0, "above 0").unwrap_err();
        assert_eq!((fault.start, fault.end), (text.len() - 2, text.len() - 1));
        let rows: Vec<Vec<CsvCell<'_>>> = rows(text).collect();
        assert_eq!((rows.len(), rows[0][0].start), (2, text.find("client,").unwrap()));
        assert_eq!(rows[1][0].start, text.find("7,x").unwrap());
    }

    #[test]
    fn other_separators_are_named() {
        for text in ["client;ms\n1;2\n", "client\tms\n1\t2\n"] {
            let fault = numbers(text, Some("ms"), |v| v > 0.0, "above 0").unwrap_err();
            assert!(fault.help.contains("separated by commas"), "{fault:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_shown_where_it_is() {
        let fault = |text: &str, name| numbers(text, name, |v| v > 0.0, "above 0").unwrap_err();
        let text = "ms\n3\nfast\n";
        let wrong = fault(text, None);
        assert_eq!(&text[wrong.start..wrong.end], "fast");
        assert!(fault("ms\n-1\n", None).message.contains("above 0"));
        assert!(fault("ms\ninf\n", None).message.contains("finite"));
        assert!(fault("a,b\n1,2\n", Some("c")).help.contains("a, b"));
        assert!(fault("a,b\n1\n", Some("b")).message.contains("1 cells, but the header has 2"));
        assert!(fault("ms\n", None).message.contains("no values"));
        assert!(fault("", None).message.contains("no header"));
    }
}
