//! Plain text tables: first column aligned left, the others right, a rule under the header.

/// Characters that texts of the last column have in any case.
const NARROWEST: usize = 30;

/// Rows of cells with a header, rendered with aligned columns.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    left: usize,
    most: Option<usize>,
}

impl TextTable {
    /// Returns a table with these column titles; the first column is aligned left.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> TextTable {
        let head = head.into_iter().map(Into::into).collect();
        TextTable { head, left: 1, ..TextTable::default() }
    }

    /// Aligns the first `columns` left.
    pub fn left(mut self, columns: usize) -> TextTable {
        self.left = columns;
        self
    }

    /// Continues texts of the last column on further lines in a table wider than `columns` characters.
    pub fn within(mut self, columns: usize) -> TextTable {
        self.most = Some(columns);
        self
    }

    /// Adds a row. Missing cells stay empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Returns true if no row was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table, two spaces between columns, a newline after every line.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).chain([self.head.len()]).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.head]);
            cells.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let mut widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
        if let (Some(most), Some((last, others))) = (self.most, widths.split_last_mut()) {
            let before: usize = others.iter().map(|width| width + 2).sum();
            *last = (*last).min(most.saturating_sub(before).max(NARROWEST));
        }
        let mut text = self.line(&self.head, &widths);
        let rule: usize = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
        text.push_str(&"─".repeat(rule));
        text.push('\n');
        for row in &self.rows {
            for line in self.lines(row, &widths) {
                text.push_str(&self.line(&line, &widths));
            }
        }
        text
    }

    /// Returns a row as rows whose last cell fits its width.
    fn lines(&self, row: &[String], widths: &[usize]) -> Vec<Vec<String>> {
        let whole = self.most.is_none() || row.len() < widths.len();
        let (Some((text, cells)), Some(width), false) = (row.split_last(), widths.last(), whole)
        else {
            return vec![row.to_vec()];
        };
        let mut parts = broken(text, *width).into_iter();
        let first = [cells, &[parts.next().unwrap_or_default()]].concat();
        let empty = vec![String::new(); cells.len()];
        let behind = parts.map(|part| [&empty[..], &[part]].concat());
        std::iter::once(first).chain(behind).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, width) in widths.iter().enumerate() {
            let cell = cells.get(column).map_or("", String::as_str);
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            if column > 0 {
                line.push_str("  ");
            }
            if column < self.left {
                line.push_str(cell);
                line.push_str(&padding);
            } else {
                line.push_str(&padding);
                line.push_str(cell);
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

/// Formats an integer with groups of digits: `3,379,600`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a fraction in percent with two decimals; empty for `None`.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.2}", 100.0 * share))
}

/// Breaks text into indented lines of at most 96 characters.
pub fn wrapped(text: &str, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let lines = broken(text, 96_usize.saturating_sub(indent));
    lines.iter().map(|line| format!("{pad}{line}\n")).collect()
}

/// Breaks text between words into lines of at most `width` characters.
///
/// A longer word has a line to itself.
fn broken(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_last_column_go_on_below() {
        let mut table = TextTable::new(["key", "meaning"]).left(2).within(40);
        table.row(["a", "one two three four five six seven eight nine ten"]);
        table.row(["bcd", "short"]);
        let text = table.render();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "a    one two three four five six seven");
        assert_eq!(lines[3], "     eight nine ten");
        assert_eq!((lines[4], lines.len()), ("bcd  short", 5));
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{text}");
        let mut whole = TextTable::new(["key", "meaning"]).left(2);
        whole.row(["a", "one two three four five six seven eight nine ten"]);
        assert_eq!(whole.render().lines().count(), 3);
    }

    #[test]
    fn columns_align_by_characters_not_bytes() {
        let mut table = TextTable::new(["kind", "bytes"]);
        table.row(["Gewichte ü", "1"]);
        table.row(["x", "1,000"]);
        let text = table.render();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "kind        bytes");
        assert_eq!(lines[2], "Gewichte ü      1");
        assert_eq!(lines[3], "x           1,000");
    }

    #[test]
    fn numbers_group_by_three() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(343_502_224), "343,502,224");
    }
}
