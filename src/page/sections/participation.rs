//! Histograms of the rounds in which clients were sampled, and of frame sizes.

use std::collections::BTreeMap;

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{Figure, HtmlTable, Mark};
use crate::page::plot::{ChartPoint, Label, Look, Panel, PlotAxis, Series, chart};

/// Most bins of a histogram.
const BINS: usize = 24;

/// Returns the histograms of sampled clients in the figures of [`PageContent::charts`].
pub fn section(content: &PageContent) -> Option<PageSection> {
    let mut figures = Vec::new();
    for (number, (name, arms)) in content.charts().iter().enumerate() {
        figures.extend(sampled(content, number, name, arms));
    }
    PageSection::of_figures("participation", "Participation", figures)
}

/// Returns the histograms of frame sizes, which few readers need.
pub fn frames_section(content: &PageContent) -> Option<PageSection> {
    let mut figures = Vec::new();
    for (number, (name, arms)) in content.charts().iter().enumerate() {
        figures.extend(frames(content, number, name, arms));
    }
    PageSection::of_figures("frames", "Sizes of frames", figures)
}

/// Bin: from, to (excluded), count.
type Bin = (f64, f64, u64);

fn at(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(", {name}") }
}

fn sampled(content: &PageContent, number: usize, name: &str, arms: &[usize]) -> Option<Figure> {
    let counted: Vec<(usize, Vec<u64>)> =
        arms.iter().map(|arm| (*arm, content.arms[*arm].sampled())).collect();
    let most = counted.iter().flat_map(|(_, counts)| counts).copied().max()?;
    // Bins of whole numbers; zero is in the first.
    let width = (most + 1).div_ceil(BINS as u64);
    let binned = |counts: &[u64]| -> Vec<Bin> {
        let mut bins: Vec<Bin> = (0..(most + 1).div_ceil(width))
            .map(|bin| ((bin * width) as f64, ((bin + 1) * width) as f64, 0))
            .collect();
        counts.iter().for_each(|count| bins[(count / width) as usize].2 += 1);
        bins
    };
    let binned: Vec<(usize, Vec<Bin>)> =
        counted.iter().map(|(arm, counts)| (*arm, binned(counts))).collect();
    let panel = panel(content, &binned, "rounds in which a client was sampled", false);
    Some(Figure {
        id: format!("sampled-{}", number + 1),
        title: format!("Rounds in which clients were sampled{}", at(name)),
        description: "Clients of all runs by the number of rounds in which each was sampled, 0 if never. The higher a \
                      step, the more clients. If clients are new in every round, only sampled ones are counted."
            .to_owned(),
        drawings: chart(&[panel]),
        mark: Mark::Line,
        legend: legend(content, arms),
        numbers: numbers(content, &binned, "rounds", "clients", width == 1, Label::Count),
    })
}

fn frames(content: &PageContent, number: usize, name: &str, arms: &[usize]) -> Option<Figure> {
    let ways = [("down", "frames to clients"), ("up", "frames to the server")];
    let mut panels = Vec::new();
    let mut table = HtmlTable::new(3, ["direction", "series", "size", "frames"]);
    for (way, title) in ways {
        let read =
            |arm: &usize| (*arm, content.arms[*arm].distribution(&format!("frame-{way}-bytes")));
        let all: Vec<(usize, crate::results::Distribution)> = arms.iter().map(read).collect();
        let sizes: Vec<f64> =
            all.iter().flat_map(|(_, d)| d.0.iter().map(|(size, _)| *size)).collect();
        let (low, high) =
            sizes.iter().fold((f64::MAX, 0.0f64), |(low, high), s| (low.min(*s), high.max(*s)));
        if sizes.is_empty() || low <= 0.0 {
            continue;
        }
        // Bins grow by a constant factor, since sizes of methods are powers of ten apart.
        let (low, high) = ((0.9 * low).log10(), (1.1 * high).log10());
        let step = (high - low) / BINS as f64;
        let edge = |bin: usize| 10f64.powf(low + step * bin as f64);
        let binned = |values: &[(f64, u64)]| -> Vec<Bin> {
            let mut bins: Vec<Bin> = (0..BINS).map(|bin| (edge(bin), edge(bin + 1), 0)).collect();
            for (size, count) in values {
                let bin = ((size.log10() - low) / step) as usize;
                bins[bin.min(BINS - 1)].2 += count;
            }
            bins
        };
        let binned: Vec<(usize, Vec<Bin>)> =
            all.iter().map(|(arm, values)| (*arm, binned(&values.0))).collect();
        panels.push(panel(content, &binned, title, true));
        let numbers = numbers(content, &binned, "size", "frames", false, Label::Bytes);
        for (arm, row) in numbers.arms.iter().zip(numbers.rows) {
            table.arm_row(*arm, [vec![way.into()], row].concat());
        }
    }
    (!panels.is_empty()).then(|| Figure {
        id: format!("frames-{}", number + 1),
        title: format!("Sizes of frames{}", at(name)),
        description:
            "Frames of all runs by size, on a logarithmic axis. The higher a step, the more frames."
                .to_owned(),
        drawings: chart(&panels),
        mark: Mark::Line,
        legend: legend(content, arms),
        numbers: table,
    })
}

fn panel(content: &PageContent, binned: &[(usize, Vec<Bin>)], title: &str, bytes: bool) -> Panel {
    let edges = || binned.iter().flat_map(|(_, bins)| bins).flat_map(|(from, to, _)| [*from, *to]);
    let counts = binned.iter().flat_map(|(_, bins)| bins).map(|(_, _, count)| *count as f64);
    let series = |(arm, bins): &(usize, Vec<Bin>)| {
        let steps = bins.iter().map(|(from, _, count)| ChartPoint::new(*from, *count as f64));
        let end = bins.last().map(|(_, to, _)| ChartPoint::new(*to, 0.0));
        let start = bins.first().map(|(from, _, _)| ChartPoint::new(*from, 0.0));
        let points = start.into_iter().chain(steps).chain(end).collect();
        Series { number: content.curve_number(*arm), points, look: Look::Steps }
    };
    let x = match bytes {
        true => PlotAxis::wide(title, edges(), Label::Bytes),
        false => PlotAxis::from_zero(title, edges(), Label::Count),
    };
    let y = PlotAxis::from_zero(if bytes { "frames" } else { "clients" }, counts, Label::Count);
    Panel { x, y, series: binned.iter().map(series).collect() }
}

fn legend(content: &PageContent, arms: &[usize]) -> Vec<(usize, String)> {
    arms.iter().map(|arm| (content.curve_number(*arm), content.curve_name(*arm))).collect()
}

fn numbers(
    content: &PageContent,
    binned: &[(usize, Vec<Bin>)],
    what: &str,
    counted: &str,
    single: bool,
    label: Label,
) -> HtmlTable {
    let mut table = HtmlTable::new(2, ["series", what, counted]);
    for (arm, bins) in binned {
        // Empty bins are left out.
        let full: BTreeMap<usize, &Bin> =
            bins.iter().enumerate().filter(|(_, bin)| bin.2 > 0).collect();
        for (from, to, count) in full.into_values() {
            let range = match (single, label) {
                (true, _) => label.write(*from),
                (false, Label::Count) => format!("{} to {}", from, to - 1.0),
                (false, label) => format!("{} to {}", label.write(*from), label.write(*to)),
            };
            table.arm_row(*arm, [content.curve_name(*arm), range, count.to_string()]);
        }
    }
    table
}
