//! Formats of the main table: CSV columns, text, Markdown.

use super::{MainTable, MainTableRow};
use crate::report::TextTable;
use crate::report::column::CellType;
use crate::results::{Metric, Table, TableCell};
use crate::study::tables::grid;

impl MainTable {
    /// Returns numbers in base units in columns `METRIC_mean`, `METRIC_sd` and `METRIC_n`.
    ///
    /// Published numbers have columns only if there are any.
    pub fn to_table(&self) -> Table {
        let mut columns = self.columns.clone();
        columns.push(("n".into(), CellType::Int));
        for (metric, has_published) in self.metrics.iter().zip(&self.has_published) {
            columns.push((format!("{metric}_mean"), CellType::Float));
            columns.push((format!("{metric}_sd"), CellType::Float));
            columns.push((format!("{metric}_n"), CellType::Int));
            if *has_published {
                let published =
                    grid::PUBLISHED.map(|end| (format!("{metric}{end}"), CellType::Float));
                columns.extend(published);
            }
        }
        if self.publishes {
            columns.extend([grid::SOURCE, grid::CHANGES].map(|name| (name.into(), CellType::Text)));
        }
        columns.push(("note".into(), CellType::Text));
        let mut table = Table::new(columns);
        for row in &self.rows {
            let mut cells = row.cells.clone();
            cells.push(TableCell::Integer(row.n as i64));
            for (metric, spread) in row.spreads.iter().enumerate() {
                cells.push(spread.map(|spread| spread.mean).into());
                cells.push(spread.and_then(|spread| spread.deviation).into());
                cells.push(TableCell::Integer(spread.map_or(0, |spread| spread.n) as i64));
                if self.has_published[metric] {
                    let published = row.published[metric];
                    cells.push(published.map(|published| published.value).into());
                    cells.push(published.and_then(|published| published.deviation).into());
                }
            }
            if self.publishes {
                let text = |text: String| match text.is_empty() {
                    true => TableCell::Empty,
                    false => TableCell::Text(text),
                };
                cells.push(text(row.source.clone().unwrap_or_default()));
                cells.push(text(row.changes.join(grid::BETWEEN)));
            }
            cells.push(row.note.map_or(TableCell::Empty, |note| self.notes[note].as_str().into()));
            table.push(cells);
        }
        table
    }

    /// Formats the table for a terminal; the best values are marked with `*`.
    pub fn to_text(&self) -> String {
        // Names instead of titles, because a terminal is narrow.
        let short = self.metrics.iter().map(|metric| match metric.unit().symbol() {
            "" => metric.name().to_owned(),
            symbol => format!("{metric}, {symbol}"),
        });
        let short = self.with_published(short.collect(), |_| "published".to_owned());
        let head = self.heads.iter().cloned().chain(["n".to_owned()]).chain(short);
        let mut table = TextTable::new(head).left(self.heads.len());
        for row in &self.rows {
            let texts = (0..self.metrics.len()).map(|metric| {
                let mark = if row.best[metric] { "*" } else { "" };
                format!("{}{mark}", self.entry(row, metric, " ± "))
            });
            let texts = self.with_published(texts.collect(), |at| self.published(row, at, " ± "));
            table.row(self.first(row, |name| name.to_owned()).into_iter().chain(texts));
        }
        let notes = self.notes.iter().enumerate();
        let notes = notes.map(|(index, note)| format!("[{}] {note}\n", index + 1));
        table.render() + &notes.collect::<String>()
    }

    /// Formats the table as Markdown.
    pub fn to_markdown(&self) -> String {
        let head = self.head();
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(head.clone());
        let rule = (0..head.len()).map(|at| if at < self.heads.len() { "---" } else { "---:" });
        text.push_str(&format!("|{}|\n", rule.collect::<Vec<_>>().join("|")));
        for row in &self.rows {
            let mut cells = self.first(row, |name| name.replace('|', "\\|"));
            let measured = (0..self.metrics.len()).map(|metric| {
                let entry = self.entry(row, metric, " ± ");
                if row.best[metric] { format!("**{entry}**") } else { entry }
            });
            let published = |metric| self.published(row, metric, " ± ");
            cells.extend(self.with_published(measured.collect(), published));
            text.push_str(&line(cells));
        }
        text.push_str(
            "\nMean ± standard deviation over n runs; (k) if only k have the metric. Bold: the best arm among rows \
             that are otherwise equal, over the seeds that all of them have, unless another lies within a standard \
             deviation. Notes compare the same seeds.\n",
        );
        for (index, note) in self.notes.iter().enumerate() {
            text.push_str(&format!("\n[{}] {note}\n", index + 1));
        }
        text + &self.grids.to_markdown()
    }

    fn head(&self) -> Vec<String> {
        let metrics = self.metrics.iter().map(Metric::heading).collect();
        let metrics = self.with_published(metrics, |_| "published".to_owned());
        self.heads.iter().cloned().chain(["n".to_owned()]).chain(metrics).collect()
    }

    /// Returns the first columns: names, the last with the mark of a note, and n.
    fn first(&self, row: &MainTableRow, shown: impl Fn(&str) -> String) -> Vec<String> {
        let mut cells: Vec<String> = row.names.iter().map(|name| shown(name)).collect();
        // Rows of the grid have an empty entry in the column of extra cells.
        let last = cells.iter_mut().rev().find(|name| !name.is_empty());
        if let (Some(note), Some(last)) = (row.note, last) {
            last.push_str(&format!(" [{}]", note + 1));
        }
        cells.push(row.n.to_string());
        cells
    }

    /// Inserts an entry behind that of every metric with published numbers.
    pub(super) fn with_published(
        &self,
        entries: Vec<String>,
        published: impl Fn(usize) -> String,
    ) -> Vec<String> {
        let both = |(metric, entry): (usize, String)| {
            let published = self.has_published[metric].then(|| published(metric));
            std::iter::once(entry).chain(published)
        };
        entries.into_iter().enumerate().flat_map(both).collect()
    }

    pub(super) fn published(&self, row: &MainTableRow, metric: usize, sign: &str) -> String {
        let published = row.published[metric].map(|value| value.show(&self.metrics[metric], sign));
        published.unwrap_or_default()
    }

    fn entry(&self, row: &MainTableRow, metric: usize, sign: &str) -> String {
        let Some(spread) = row.spreads[metric] else { return String::new() };
        let metric = &self.metrics[metric];
        let mut text = metric.show(spread.mean);
        if let Some(deviation) = spread.deviation {
            text.push_str(sign);
            text.push_str(&metric.show(deviation));
        }
        if spread.n != row.n {
            text.push_str(&format!(" ({})", spread.n));
        }
        text
    }
}
