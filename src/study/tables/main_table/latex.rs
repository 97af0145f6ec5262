//! Main table as LaTeX: methods as rows, another axis as columns, a part of the table for each metric.

use super::latex_text::escaped;
use super::layout::LatexColumns;
use super::{MainTable, MainTableRow};
use crate::study::Point;

impl MainTable {
    /// Formats the table as LaTeX, for `\input`.
    ///
    /// It needs the packages `booktabs` and `threeparttable`, which puts the notes below a table of any width.
    pub fn to_tex(&self) -> String {
        let body = match &self.latex.columns {
            Some(columns) => self.pivoted(columns),
            None => self.flat(),
        };
        let mut text =
            String::from("% \\usepackage{booktabs,threeparttable}\n\\begin{threeparttable}\n");
        text.push_str(&body);
        text.push_str("\\begin{tablenotes}\\footnotesize\n");
        text.push_str(&format!("\\item {}\n", self.legend()));
        for (number, note) in self.latex.notes.iter().enumerate() {
            let mark =
                if self.marks_notes() { format!("[{}]", letter(number)) } else { String::new() };
            text.push_str(&format!("\\item{mark} {}\n", escaped(note)));
        }
        text + "\\end{tablenotes}\n\\end{threeparttable}\n"
    }

    /// Returns a table with a column for each metric.
    fn flat(&self) -> String {
        let heads = self.latex.heads.len();
        let numbers = self.metrics.len() + self.has_published.iter().filter(|has| **has).count();
        let metrics = self.metrics.iter().map(|metric| escaped(&metric.short_heading()));
        let metrics = self.with_published(metrics.collect(), |_| "published".to_owned());
        let names = self.latex.heads.iter().map(|name| escaped(name));
        let mut text =
            begin(heads, numbers) + &line(names.chain(metrics).collect()) + "\\midrule\n";
        for (row, names) in self.rows.iter().zip(&self.latex.names) {
            let mut cells: Vec<String> = names.iter().map(|name| escaped(name)).collect();
            if let Some(note) = row.note.filter(|_| self.marks_notes()) {
                cells[heads - 1].push_str(&marked(note));
            }
            let measured = (0..self.metrics.len()).map(|at| self.math(row, at)).collect();
            cells.extend(self.with_published(measured, |at| self.published_math(row, at)));
            text.push_str(&line(cells));
        }
        text + "\\bottomrule\n\\end{tabular}\n"
    }

    /// Returns a table with a column for each arm of an axis and a part for each metric.
    fn pivoted(&self, columns: &LatexColumns) -> String {
        let (heads, count) = (self.latex.heads.len(), columns.arms.len());
        let mut text = begin(heads, count);
        let empty = "& ".repeat(heads);
        let name = escaped(&columns.name);
        text.push_str(&format!("{empty}\\multicolumn{{{count}}}{{c}}{{{name}}} \\\\\n"));
        text.push_str(&format!("\\cmidrule(lr){{{}-{}}}\n", heads + 1, heads + count));
        let notes = self.column_notes(columns);
        let arms = columns.arms.iter().zip(&notes).map(|(name, note)| {
            let mark = note.map(marked).unwrap_or_default();
            format!("{}{mark}", escaped(name))
        });
        let names = self.latex.heads.iter().map(|name| escaped(name));
        text.push_str(&line(names.chain(arms).collect()));
        for (at, metric) in self.metrics.iter().enumerate() {
            let title = escaped(&metric.short_heading());
            if self.rows.iter().any(|row| row.spreads[at].is_some()) {
                text.push_str(&self.part(columns, &notes, &title, |row| self.math(row, at)));
            }
            if self.has_published[at] {
                let title = format!("{title}, published");
                text.push_str(
                    &self.part(columns, &notes, &title, |row| self.published_math(row, at)),
                );
            }
        }
        text + "\\bottomrule\n\\end{tabular}\n"
    }

    /// Returns the note that all rows of a column with a run share; it is marked at the column's head.
    fn column_notes(&self, columns: &LatexColumns) -> Vec<Option<usize>> {
        let of = |arm: usize| {
            let is_in = |row: &&MainTableRow| match &row.point {
                Point::Grid(arms) => row.n > 0 && arms[columns.axis] == arm,
                Point::Extra(_) => false,
            };
            let mut notes = self.rows.iter().filter(is_in).map(|row| row.note);
            let first = notes.next()??;
            notes.all(|note| note == Some(first)).then_some(first)
        };
        let all = 0..columns.arms.len();
        all.map(|arm| of(arm).filter(|_| self.marks_notes())).collect()
    }

    /// Returns the rows of one metric, below its name.
    fn part(
        &self,
        columns: &LatexColumns,
        notes: &[Option<usize>],
        title: &str,
        entry: impl Fn(&MainTableRow) -> String,
    ) -> String {
        let (heads, count) = (self.latex.heads.len(), columns.arms.len());
        let mut text = format!(
            "\\midrule\n\\multicolumn{{{}}}{{l}}{{\\emph{{{title}}}}} \\\\\n",
            heads + count
        );
        let mut lines: Vec<(&Vec<String>, Vec<String>)> = Vec::new();
        for (row, names) in self.rows.iter().zip(&self.latex.names) {
            let mut shown = entry(row);
            let is_at_head =
                matches!(&row.point, Point::Grid(arms) if notes[arms[columns.axis]].is_some());
            let marks = self.marks_notes() && !is_at_head && !shown.is_empty();
            if let Some(note) = row.note.filter(|_| marks) {
                shown.push_str(&marked(note));
            }
            let Point::Grid(arms) = &row.point else {
                // An extra cell has no place on the axis.
                let shown = if shown.is_empty() { "--" } else { &shown };
                lines.push((names, vec![format!("\\multicolumn{{{count}}}{{c}}{{{shown}}}")]));
                continue;
            };
            let found =
                lines.iter().position(|(other, cells)| *other == names && cells.len() == count);
            let at = found.unwrap_or_else(|| {
                lines.push((names, vec!["--".to_owned(); count]));
                lines.len() - 1
            });
            if !shown.is_empty() {
                lines[at].1[arms[columns.axis]] = shown;
            }
        }
        for (names, cells) in lines {
            text.push_str(&line(names.iter().map(|name| escaped(name)).chain(cells).collect()));
        }
        text
    }

    /// Returns true if notes have marks in the table, since they are not on all of its rows.
    fn marks_notes(&self) -> bool {
        let done = || self.rows.iter().filter(|row| row.n > 0);
        self.latex.notes.len() > 1 || done().any(|row| row.note.is_none())
    }

    /// Returns the sentence on the numbers.
    fn legend(&self) -> String {
        let counts = || self.rows.iter().map(|row| row.n).filter(|n| *n > 0);
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let over = match most {
            0 => return "No run is complete.".to_owned(),
            1 => {
                return "One run per entry. Bold: the best of those that are otherwise equal."
                    .to_owned();
            }
            _ if least == most => format!("{most} seeds"),
            _ => format!("{most} seeds, or those in parentheses"),
        };
        format!(
            "Mean $\\pm$ sample standard deviation over {over}. Bold: the best of entries that are otherwise equal, \
             unless another lies within a standard deviation; no test of significance."
        )
    }

    fn math(&self, row: &MainTableRow, at: usize) -> String {
        let Some(spread) = row.spreads[at] else { return String::new() };
        let metric = &self.metrics[at];
        let show = |value: f64| metric.show_grouped(value).replace(',', "{,}");
        let mut entry = show(spread.mean);
        if let Some(deviation) = spread.deviation {
            entry.push_str(&format!(" \\pm {}", show(deviation)));
        }
        if row.best[at] {
            entry = format!("\\mathbf{{{entry}}}");
        }
        let most = self.rows.iter().map(|row| row.n).max().unwrap_or(0);
        let fewer = if spread.n < most { format!("\\,({})", spread.n) } else { String::new() };
        format!("${entry}{fewer}$")
    }

    fn published_math(&self, row: &MainTableRow, at: usize) -> String {
        let entry = self.published(row, at, " \\pm ");
        if entry.is_empty() { entry } else { format!("${entry}$") }
    }
}

fn begin(words: usize, numbers: usize) -> String {
    format!("\\begin{{tabular}}{{{}{}}}\n\\toprule\n", "l".repeat(words), "r".repeat(numbers))
}

fn line(cells: Vec<String>) -> String {
    format!("{} \\\\\n", cells.join(" & ").trim_end())
}

/// Returns the mark of a note: a, b, ..., z, then numbers.
fn letter(note: usize) -> String {
    match u8::try_from(note).ok().filter(|note| *note < 26) {
        Some(note) => char::from(b'a' + note).to_string(),
        None => (note + 1).to_string(),
    }
}

fn marked(note: usize) -> String {
    format!("\\tnote{{{}}}", letter(note))
}
