//! CSV files that a scenario names: cells with their places, so that a wrong one can be shown.
//!
//! Cells are separated by commas and trimmed; there are no quotes. The first line that is neither
//! empty nor begins with `#` is the header.

use super::reader::is_tame;

/// A cell and where it stands in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell<'a> {
    pub text: &'a str,
    /// First byte.
    pub start: usize,
}

impl Cell<'_> {
    /// Byte after the last.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CsvFault {
    pub start: usize,
    pub end: usize,
    pub message: String,
    pub label: String,
    pub help: String,
}

impl CsvFault {
    pub fn at(cell: Cell<'_>, message: String, label: &str, help: &str) -> CsvFault {
        let (start, end) = (cell.start, cell.end());
        CsvFault { start, end, message, label: label.to_owned(), help: help.to_owned() }
    }
}

/// The lines that mean something, as cells.
pub(super) fn rows(text: &str) -> impl Iterator<Item = Vec<Cell<'_>>> {
    let mut next = 0;
    let lines = text.split_inclusive('\n').map(move |line| {
        let start = next;
        next += line.len();
        (start, line)
    });
    lines
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .map(|(start, line)| cells(start, line))
}

fn cells(mut start: usize, line: &str) -> Vec<Cell<'_>> {
    let mut found = Vec::new();
    for piece in line.trim_end_matches(['\r', '\n']).split(',') {
        let lead = piece.len() - piece.trim_start().len();
        found.push(Cell { text: piece.trim(), start: start + lead });
        start += piece.len() + 1;
    }
    found
}

/// The places of columns in the header.
pub(super) fn columns<const N: usize>(
    header: &[Cell<'_>],
    names: [&str; N],
) -> Result<[usize; N], CsvFault> {
    let mut places = [0; N];
    for (place, name) in places.iter_mut().zip(names) {
        let found = header.iter().position(|cell| cell.text == name);
        *place = found.ok_or_else(|| no_column(header, name, &names))?;
    }
    Ok(places)
}

fn no_column(header: &[Cell<'_>], name: &str, needed: &[&str]) -> CsvFault {
    let found = header.iter().map(|cell| cell.text).collect::<Vec<_>>().join(", ");
    let message = format!("there is no column `{name}`");
    let help = match is_tame(&found) {
        true => format!("the file has {found}; what is read are {}", needed.join(", ")),
        false => "its first line is not the header of a table; is this the right file?".to_owned(),
    };
    CsvFault::at(header[0], message, "the header", &help)
}

/// A cell of a line below a header of so many.
pub(super) fn cell<'a>(
    row: &[Cell<'a>],
    place: usize,
    header: usize,
) -> Result<Cell<'a>, CsvFault> {
    row.get(place).copied().ok_or_else(|| {
        let message = format!("this line has {} cells, the header {header}", row.len());
        CsvFault::at(row[row.len() - 1], message, "the last cell", "add what is missing")
    })
}

/// A file without a header, or without anything below it.
pub(super) fn nothing(text: &str, what: &str) -> CsvFault {
    CsvFault {
        start: 0,
        end: text.lines().next().map_or(0, str::len),
        message: format!("the file has no {what}"),
        label: "nothing to read".to_owned(),
        help: "write a header and the values in lines below it".to_owned(),
    }
}

/// A cell as a number that `admits` takes; `words` says which those are.
pub(super) fn number(
    cell: Cell<'_>,
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
            "write numbers such as 12.5, without units and quotes",
        )),
    }
}

/// The numbers of one column, the first where none is named.
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
        let all: Vec<Vec<Cell<'_>>> = rows(text).collect();
        assert_eq!(all.len(), 3);
        assert!(all.iter().flatten().all(|c| &text[c.start..c.end()] == c.text), "{all:?}");
        assert_eq!(all[1][1].text, "12.5");
        assert_eq!(numbers(text, Some("ms"), |v| v > 0.0, "above 0"), Ok(vec![12.5, 7.0]));
        assert_eq!(numbers(text, None, |v| v >= 0.0, "at least 0"), Ok(vec![0.0, 1.0]));
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
        assert!(fault("a,b\n1\n", Some("b")).message.contains("1 cells, the header 2"));
        assert!(fault("ms\n", None).message.contains("no values"));
        assert!(fault("", None).message.contains("no header"));
    }
}
