//! Figures of a page as files: an SVG and a PDF for papers and slides, and a CSV of its numbers.
//!
//! ```
//! use fedcast::methods::Registry;
//! use fedcast::page::{PageContent, figure_files};
//!
//! let content = PageContent::gather(&["no/such/study".into()], &[], &Registry::builtin())?;
//! assert!(figure_files(&content).is_empty());
//! # Ok::<(), fedcast::study::StudyError>(())
//! ```

use maud::{PreEscaped, html};

use super::content::PageContent;
use super::html::{Figure, HtmlTable, Mark};
use super::pdf::pdf;
use super::plot::{color, hex, outline};
use super::sections;
use crate::results::Arm;

/// A figure of a page as file contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureFile {
    /// Name without extension, such as `metric-faa`.
    pub name: String,
    /// Drawing with its legend, on white.
    pub svg: String,
    /// Drawing as a page of its size, with its font.
    pub pdf: Vec<u8>,
    /// Numbers of the drawing; standard deviations and axes of arms have separate columns.
    pub csv: String,
}

/// Returns every figure of a page, in its order.
pub fn figure_files(content: &PageContent) -> Vec<FigureFile> {
    let figures = sections::all(content).into_iter().flat_map(|section| section.figures);
    figures.map(|figure| FigureFile::of(&figure, &content.arms)).collect()
}

/// Height of a line of the legend, in pixels.
const LINE: u32 = 20;

/// Largest width of a character of the legend, in pixels.
const CHARACTER: u32 = 7;

impl FigureFile {
    fn of(figure: &Figure, arms: &[Arm]) -> FigureFile {
        let svg = svg(figure);
        let pdf = pdf(&svg).expect("a drawing of ours has a size");
        FigureFile { name: figure.id.clone(), svg, pdf, csv: csv(&figure.numbers, arms) }
    }
}

fn svg(figure: &Figure) -> String {
    let width = &figure.drawings.iter().map(|(_, size)| size.0).sum::<u32>();
    let height = &figure.drawings.iter().map(|(_, size)| size.1).max().unwrap_or(0);
    let places = figure.drawings.iter().scan(0, |from, (_, size)| {
        let place = *from;
        *from += size.0;
        Some(place)
    });
    let entries = if figure.legend.len() > 1 { placed(&figure.legend, *width) } else { Vec::new() };
    let below = entries.iter().map(|(_, (_, y))| y + LINE).max().unwrap_or(0);
    let whole = height + below;
    let drawing = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (width) " " (whole) } width=(width) height=(whole)
            font-size="12" font-family="Helvetica,Arial,sans-serif" {
            title { (figure.title) }
            desc { (figure.description) }
            rect width=(width) height=(whole) fill="#ffffff" {}
            @for ((body, _), place) in figure.drawings.iter().zip(places) {
                g transform={ "translate(" (place) " 0)" } { (PreEscaped(body)) }
            }
            @for ((number, name), (x, y)) in &entries {
                g transform={ "translate(" (x) " " (height + y) ")" } {
                    @if figure.mark == Mark::Field {
                        rect fill=(hex(color(*number))) x="2" y="2" width="20" height="10" {}
                    } @else {
                        line stroke=(hex(color(*number))) stroke-width="2" x1="0" y1="7" x2="24" y2="7" {}
                        polygon fill=(hex(color(*number))) points=(mark(*number)) {}
                    }
                    text x="30" y="11" fill="#222222" { (name) }
                }
            }
        }
    };
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", drawing.into_string())
}

fn mark(number: usize) -> String {
    let corners = outline(number).into_iter().map(|(x, y)| format!("{},{}", x + 12, y + 7));
    corners.collect::<Vec<_>>().join(" ")
}

/// Number and name of a series, with its place below the drawing.
type Entry = ((usize, String), (u32, u32));

/// Places the entries of a legend in lines of a width.
fn placed(legend: &[(usize, String)], width: u32) -> Vec<Entry> {
    let (mut x, mut y) = (10, 4);
    let mut entries = Vec::new();
    for (number, name) in legend {
        let needed = 46 + CHARACTER * name.chars().count() as u32;
        if x > 10 && x + needed > width {
            (x, y) = (10, y + LINE);
        }
        entries.push(((*number, name.clone()), (x, y)));
        x += needed;
    }
    entries
}

/// Returns a table as CSV: numbers without groups of digits, mean and standard deviation in two columns.
///
/// After the column with names of arms comes one column per axis, as in `cells.csv`, which is empty for a cell outside
/// the grid. Other columns that have the name of an axis get the prefix `run_`.
fn csv(table: &HtmlTable, arms: &[Arm]) -> String {
    let texts = |column: usize| table.rows.iter().filter_map(move |row| row.get(column));
    let spreads: Vec<bool> =
        (0..table.head.len()).map(|at| texts(at).any(|cell| cell.text.contains(SPREAD))).collect();
    let axes = if table.arms.is_empty() { Vec::new() } else { axes(arms) };
    let named = table.head.iter().position(|name| ["arm", "series"].contains(&name.as_str()));
    let mut head: Vec<String> = Vec::new();
    for (at, (name, spread)) in table.head.iter().zip(&spreads).enumerate() {
        let prefix = if axes.contains(&name.as_str()) { "run_" } else { "" };
        head.push(format!("{prefix}{name}"));
        head.extend(spread.then(|| format!("{prefix}{name}, deviation")));
        if named == Some(at) {
            head.extend(axes.iter().map(|axis| (*axis).to_owned()));
        }
    }
    let mut lines = vec![head];
    for (place, row) in table.rows.iter().enumerate() {
        let arm = table.arms.get(place).and_then(|arm| arms.get(*arm));
        let mut line = Vec::new();
        for (at, (cell, spread)) in row.iter().zip(&spreads).enumerate() {
            let (mean, deviation) = cell.text.split_once(SPREAD).unwrap_or((&cell.text, ""));
            line.push(plain(mean));
            line.extend(spread.then(|| plain(deviation)));
            if named == Some(at) {
                let value = |axis: &&str| arm.and_then(|arm| arm.axis(axis)).unwrap_or_default();
                line.extend(axes.iter().map(|axis| value(axis).to_owned()));
            }
        }
        lines.push(line);
    }
    let mut text = csv::Writer::from_writer(Vec::new());
    for line in &lines {
        text.write_record(line).expect("a text takes any record");
    }
    let text = text.into_inner().expect("a text takes any record");
    String::from_utf8(text).expect("records of text")
}

/// Returns the names of the axes of the grid.
fn axes(arms: &[Arm]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (axis, _) in arms.iter().flat_map(|arm| &arm.axes) {
        if axis != Arm::CELL && !names.contains(&axis.as_str()) {
            names.push(axis);
        }
    }
    names
}

/// Text between a mean and its deviation.
const SPREAD: &str = " ± ";

/// Returns a number without its groups of digits, and any other text as it is.
fn plain(text: &str) -> String {
    let bare = text.replace(',', "");
    if bare.parse::<f64>().is_ok() { bare } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_columns_for_deviations_and_no_groups() {
        let mut table = HtmlTable::new(1, ["series", "bytes", "accuracy (%)"]);
        table.row(["a, b", "1,234,567", "90.58 ± 0.71"]);
        table.row(["c", "12", "80.00"]);
        let wanted = "series,bytes,accuracy (%),\"accuracy (%), deviation\"\n\
                      \"a, b\",1234567,90.58,0.71\nc,12,80.00,\n";
        assert_eq!(csv(&table, &[]), wanted);
    }

    #[test]
    fn every_axis_has_a_column_behind_the_names_of_arms() {
        let arm = |axes: &[(&str, &str)]| Arm {
            axes: axes.iter().map(|(axis, value)| ((*axis).into(), (*value).into())).collect(),
            runs: Vec::new(),
            repeats: Vec::new(),
            scenario: Default::default(),
        };
        let arms = [
            arm(&[("method", "hgp"), ("round", "10")]),
            arm(&[("method", "stsa"), ("round", "20")]),
            arm(&[(Arm::CELL, "all, at once")]),
        ];
        let mut table = HtmlTable::new(2, ["direction", "series", "round", "bytes"]);
        table.arm_row(1, ["up", "STSA, round=20", "3", "1,000 ± 2"]);
        table.arm_row(0, ["down", "HGP, round=10", "4", "7"]);
        table.arm_row(2, ["up", "all, at once", "5", "8"]);
        let wanted = "direction,series,method,round,run_round,bytes,\"bytes, deviation\"\n\
                      up,\"STSA, round=20\",stsa,20,3,1000,2\n\
                      down,\"HGP, round=10\",hgp,10,4,7,\n\
                      up,\"all, at once\",,,5,8,\n";
        assert_eq!(csv(&table, &arms), wanted);
    }

    #[test]
    fn a_legend_goes_on_in_further_lines() {
        let legend: Vec<(usize, String)> = ["fedavg", "hgp", "scaffold"]
            .iter()
            .map(|name| (*name).to_owned())
            .enumerate()
            .collect();
        let places: Vec<(u32, u32)> = placed(&legend, 200).into_iter().map(|(_, at)| at).collect();
        assert_eq!(places, [(10, 4), (98, 4), (10, 24)]);
    }

    #[test]
    fn a_drawing_stands_alone() {
        let figure = Figure {
            id: "metric-faa".to_owned(),
            title: "A & B".to_owned(),
            description: "c".to_owned(),
            drawings: vec![
                ("<path d=\"M0 0\"/>".to_owned(), (300, 100)),
                ("<path d=\"M1 1\"/>".to_owned(), (200, 90)),
            ],
            mark: Mark::Line,
            legend: vec![(0, "x".to_owned()), (1, "<y>".to_owned())],
            numbers: HtmlTable::new(1, ["series"]),
        };
        let text = svg(&figure);
        for part in [
            "xmlns=\"http://www.w3.org/2000/svg\"",
            "viewBox=\"0 0 500 124\"",
            "<g transform=\"translate(300 0)\"><path d=\"M1 1\"/></g>",
            "<title>A &amp; B</title>",
            "<path d=\"M0 0\"/>",
            "&lt;y&gt;",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
