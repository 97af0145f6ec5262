//! Plain text tables: first column aligned left, the others right, a rule under the header.
//!
//! A table that is wider than the [screen] breaks the texts of its last column if all columns are texts
//! and that one has room; otherwise columns that have no room are in further tables below, each with the first columns
//! again, or are left out and named.

use std::ops::Range;

use super::screen;

/// Smallest width of texts in the last column, in characters.
const NARROWEST: usize = 14;

/// Rows of cells with a header, rendered with aligned columns.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    left: usize,
    repeated: usize,
    indent: usize,
    most: Option<usize>,
    leaves_out: bool,
}

impl TextTable {
    /// Returns a table with these column titles; the first column is aligned left.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> TextTable {
        let head = head.into_iter().map(Into::into).collect();
        TextTable { head, left: 1, repeated: 1, ..TextTable::default() }
    }

    /// Aligns the first `columns` left, and repeats them if the table continues below.
    pub fn left(mut self, columns: usize) -> TextTable {
        (self.left, self.repeated) = (columns, columns);
        self
    }

    /// Repeats the first `columns` alone if the table continues below.
    pub fn repeated(mut self, columns: usize) -> TextTable {
        self.repeated = columns;
        self
    }

    /// Leaves out columns that have no room and names them in a line below.
    pub fn leaving_out(mut self) -> TextTable {
        self.leaves_out = true;
        self
    }

    /// Begins every line with this number of spaces.
    pub fn indented(mut self, spaces: usize) -> TextTable {
        self.indent = spaces;
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
        self.render_for(screen::columns())
    }

    fn render_for(&self, screen: Option<usize>) -> String {
        let most = self.most.into_iter().chain(screen).min();
        let most = most.map(|most| most.saturating_sub(self.indent));
        let widths = self.widths();
        let before: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
        let breaks = self.left >= widths.len() && !self.leaves_out;
        if self.most.is_some() || breaks && most.is_none_or(|most| before + NARROWEST <= most) {
            return self.render_within(most);
        }
        let blocks = self.blocks(most);
        let part = |block: &Range<usize>| self.part(block.clone()).render_within(None);
        if self.leaves_out && blocks.len() > 1 {
            let out = self.head[blocks[0].end..].join(", ");
            return format!("{}left out for lack of room: {out}\n", part(&blocks[0]));
        }
        blocks.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    /// Returns the width of a line in characters, if nothing limits it.
    pub fn width(&self) -> usize {
        let widths = self.widths();
        self.indent + widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
    }

    fn columns(&self) -> usize {
        self.rows.iter().map(Vec::len).chain([self.head.len()]).max().unwrap_or(0)
    }

    /// Returns the columns behind the repeated ones as ranges that fit, each of one column at least.
    fn blocks(&self, most: Option<usize>) -> Vec<Range<usize>> {
        let columns = self.columns();
        let widths = self.widths();
        let first = self.repeated.min(columns);
        let left: usize = widths[..first].iter().map(|width| width + 2).sum();
        let (mut blocks, mut start, mut width) = (Vec::new(), first, left);
        for (column, own) in widths.iter().enumerate().skip(first) {
            width += own + 2;
            if most.is_some_and(|most| width - 2 > most) && column > start {
                blocks.push(start..column);
                (start, width) = (column, left + own + 2);
            }
        }
        blocks.push(start..columns);
        blocks
    }

    /// Returns the table with the repeated columns and these.
    fn part(&self, columns: Range<usize>) -> TextTable {
        let cut = |row: &Vec<String>| -> Vec<String> {
            let cells = row.iter().enumerate();
            let kept = cells.filter(|(at, _)| *at < self.repeated || columns.contains(at));
            kept.map(|(_, cell)| cell.clone()).collect()
        };
        let rows = self.rows.iter().map(cut).collect();
        let left =
            self.repeated.min(self.left) + self.left.min(columns.end).saturating_sub(columns.start);
        TextTable { head: cut(&self.head), rows, left, indent: self.indent, ..TextTable::default() }
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.head]);
            cells.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        (0..self.columns()).map(|column| width(column).unwrap_or(0)).collect()
    }

    fn render_within(&self, most: Option<usize>) -> String {
        let columns = self.columns();
        let mut widths = self.widths();
        if let (Some(most), Some((last, others))) = (most, widths.split_last_mut()) {
            let before: usize = others.iter().map(|width| width + 2).sum();
            *last = (*last).min(most.saturating_sub(before).max(NARROWEST));
        }
        let indent = " ".repeat(self.indent);
        let mut text = format!("{indent}{}", self.line(&self.head, &widths));
        let rule: usize = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
        text.push_str(&indent);
        text.push_str(&"─".repeat(rule));
        text.push('\n');
        for row in &self.rows {
            for line in self.lines(row, &widths, most) {
                text.push_str(&indent);
                text.push_str(&self.line(&line, &widths));
            }
        }
        text
    }

    /// Returns a row as rows whose last cell fits its width.
    fn lines(&self, row: &[String], widths: &[usize], most: Option<usize>) -> Vec<Vec<String>> {
        let whole = most.is_none() || row.len() < widths.len();
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

/// Breaks text into indented lines of at most 96 characters, or as many as the screen has.
pub fn wrapped(text: &str, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let width = screen::columns().map_or(96, |columns| columns.min(96));
    let lines = broken(text, width.saturating_sub(indent));
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
    fn columns_without_room_are_below_with_the_first_column() {
        let mut table = TextTable::new(["task", "bytes down", "bytes up", "rounds"]);
        table.row(["a task", "1,000", "2,000", "3"]);
        let text = table.render_for(Some(28));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "task    bytes down  bytes up");
        let narrow = table.render_for(Some(20));
        let lines: Vec<&str> = narrow.lines().collect();
        assert_eq!([lines[0], lines[2]], ["task    bytes down", "a task       1,000"]);
        assert_eq!([lines[3], lines[4], lines[6]], ["", "task    bytes up", "a task     2,000"]);
        assert_eq!([lines[8], lines[10]], ["task    rounds", "a task       3"]);
        assert_eq!(table.render_for(Some(200)), table.render_for(None));
    }

    #[test]
    fn columns_without_room_are_named_where_they_are_left_out() {
        let head = ["run", "method", "status", "seed", "age"];
        let mut table = TextTable::new(head).left(3).repeated(1).leaving_out();
        table.row(["a/b", "hgp", "done", "1", "2 h"]);
        let text = table.render_for(Some(20));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "run  method  status");
        assert_eq!(
            [lines[2], lines[3]],
            ["a/b  hgp     done", "left out for lack of room: seed, age"]
        );
        assert!(!table.render_for(Some(table.width())).contains("left out"));
        assert!(
            table.render_for(Some(table.width() - 1)).contains("left out for lack of room: age")
        );
    }

    #[test]
    fn words_go_on_below_where_the_last_column_has_no_room() {
        let head = ["a service", "robust means", "secure aggregation", "malicious clients"];
        let mut table = TextTable::new(head).left(4).repeated(1);
        table.row(["hgp", "yes", "no", "yes"]);
        let text = table.render_for(Some(44));
        assert!(text.lines().all(|line| line.chars().count() <= 44), "{text}");
        assert_eq!(text.lines().nth(4), Some("a service  malicious clients"));
        assert_eq!(text.lines().nth(6), Some("hgp        yes"));
    }

    #[test]
    fn indentation_counts() {
        let mut table = TextTable::new(["key", "meaning"]).left(2).within(24).indented(4);
        table.row(["a", "one two three four"]);
        let text = table.render_for(None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!([lines[2], lines[3]], ["    a    one two three", "         four"]);
        assert!(lines[1].starts_with("    ─"));
        assert!(lines.iter().all(|line| line.chars().count() <= 24), "{text}");
    }

    #[test]
    fn texts_follow_the_screen_if_it_is_narrower_than_their_bound() {
        let mut table = TextTable::new(["key", "meaning"]).left(2).within(100);
        table.row(["a", "one two three four five six seven eight nine ten"]);
        let lines = |screen| table.render_for(screen).lines().count();
        assert_eq!([lines(Some(40)), lines(Some(300)), lines(None)], [4, 3, 3]);
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
