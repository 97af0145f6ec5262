//! Learning curves with bands: over rounds, bytes and virtual time.

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{Figure, HtmlTable, Mark, with_spread};
use crate::page::plot::{ChartPoint, Label, Look, Panel, PlotAxis, Series, chart};
use crate::results::{CurvePoint, thinned};
use crate::study::Plot;

/// Most points of a curve; more cannot be distinguished.
const POINTS: usize = 50;

/// Points of an arm.
pub(super) type Curve = Vec<CurvePoint>;

/// Returns a figure of learning curves for each of [`PageContent::charts`].
pub fn section(content: &PageContent) -> Option<PageSection> {
    let wanted = content.plots.is_empty() || content.plots.contains(&Plot::AccuracyByRound);
    let charts = if wanted { content.charts() } else { Vec::new() };
    let figures: Vec<Figure> = charts
        .iter()
        .enumerate()
        .filter_map(|(number, (name, arms))| figure(content, number, name, arms))
        .collect();
    PageSection::of_figures("curves", "Learning curves", figures)
}

fn figure(content: &PageContent, number: usize, name: &str, arms: &[usize]) -> Option<Figure> {
    let curves: Vec<(usize, Curve)> = arms
        .iter()
        .map(|arm| (*arm, thinned(&content.arms[*arm].curve(), POINTS)))
        .filter(|(_, curve)| curve.len() > 1)
        .collect();
    if curves.is_empty() {
        return None;
    }
    let published: Vec<(usize, Curve)> = curves
        .iter()
        .map(|(arm, _)| (*arm, content.arms[*arm].published_curve()))
        .filter(|(_, curve)| !curve.is_empty())
        .collect();
    let panel = |title: &str, label: Label, of: fn(&CurvePoint) -> f64| {
        panel(content, [&curves, &published], title, label, of)
    };
    let mut panels = vec![
        panel("round", Label::Count, |point| point.round as f64),
        panel("bytes, both directions", Label::Bytes, |point| point.bytes),
    ];
    // Virtual time stays 0 with ideal links and devices.
    let timed = curves.iter().flat_map(|(_, curve)| curve).any(|point| point.closed_s > 0.0);
    if timed {
        panels.push(panel("virtual time (s)", Label::Seconds, |point| point.closed_s));
    }
    let series = |(arm, _): &(usize, Curve)| (content.curve_number(*arm), content.curve_name(*arm));
    let at = if name.is_empty() { String::new() } else { format!(", {name}") };
    Some(Figure {
        id: format!("curve-{}", number + 1),
        title: format!("Accuracy on all classes seen{at}"),
        description: format!(
            "Mean over runs after every evaluated round, over rounds, cumulative bytes{}. Bands are one sample \
             standard deviation and end at 0 and 100 %. Long curves are thinned to {POINTS} points.{}",
            if timed { " and virtual time" } else { "" },
            if published.is_empty() { "" } else { PUBLISHED }
        ),
        drawings: chart(&panels),
        mark: Mark::Line,
        legend: curves.iter().map(series).collect(),
        numbers: numbers(content, [&curves, &published], timed),
    })
}

/// Sentence on marks without a line.
pub(super) const PUBLISHED: &str =
    " Marks without a line are accuracies published for the end of a stage.";

/// Draws the first curves as lines and the second ones, which are published, as marks.
pub(super) fn panel(
    content: &PageContent,
    [curves, published]: [&[(usize, Curve)]; 2],
    title: &str,
    label: Label,
    of: fn(&CurvePoint) -> f64,
) -> Panel {
    let all = || curves.iter().chain(published).flat_map(|(_, curve)| curve);
    let ends = |point: &CurvePoint| {
        let spread = point.accuracy.deviation.unwrap_or(0.0);
        [point.accuracy.mean - spread, point.accuracy.mean + spread]
    };
    let series = |(arm, curve): &(usize, Curve), look| Series {
        number: content.curve_number(*arm),
        points: curve
            .iter()
            .map(|point| ChartPoint {
                spread: point.accuracy.deviation,
                ..ChartPoint::new(of(point), point.accuracy.mean)
            })
            .collect(),
        look,
    };
    let lines = curves.iter().map(|curve| series(curve, Look::Band));
    let marks = published.iter().map(|curve| series(curve, Look::Marks));
    Panel {
        x: match label {
            // Methods are powers of ten apart.
            Label::Bytes => PlotAxis::wide(title, all().map(of), label),
            _ => PlotAxis::from_zero(title, all().map(of), label),
        },
        y: PlotAxis::linear("accuracy (%)", all().flat_map(ends), Label::Percent),
        series: lines.chain(marks).collect(),
    }
}

fn numbers<'a>(
    content: &'a PageContent,
    [curves, published]: [&'a [(usize, Curve)]; 2],
    timed: bool,
) -> HtmlTable {
    let mut head = vec!["series", "round", "accuracy (%)", "bytes"];
    if timed {
        head.push("virtual time (s)");
    }
    let mut table = HtmlTable::new(1, head);
    let named = |of: &'static str, curves: &'a [(usize, Curve)]| {
        let name = move |arm: usize| format!("{}{of}", content.curve_name(arm));
        curves.iter().map(move |(arm, curve)| (*arm, name(*arm), curve))
    };
    for (arm, name, curve) in named("", curves).chain(named(", published", published)) {
        for point in curve {
            let percent = |share: f64| Label::Percent.exact(share);
            let accuracy = &point.accuracy;
            let mut row = vec![
                name.clone(),
                point.round.to_string(),
                with_spread(percent(accuracy.mean), accuracy.deviation.map(percent)),
                Label::Bytes.exact(point.bytes),
            ];
            if timed {
                row.push(Label::Seconds.exact(point.closed_s));
            }
            table.arm_row(arm, row);
        }
    }
    table
}
