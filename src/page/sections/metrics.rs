//! Metrics over the horizontal axis, with error bars.

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{Figure, HtmlTable, Mark, slug, with_spread};
use crate::page::plot::{ChartPoint, Label, Look, Panel, PlotAxis, Series, chart};
use crate::results::{Metric, Unit};
use crate::study::Plot;

/// Returns one figure per chosen metric; by default those of accuracy and bytes.
pub fn section(content: &PageContent) -> Option<PageSection> {
    if content.arms.len() < 2 {
        return None;
    }
    let wished = content.plots.iter().filter_map(|plot| match plot {
        Plot::Metric(metric) => Some(metric.clone()),
        _ => None,
    });
    let mut metrics: Vec<Metric> = wished.collect();
    if content.plots.is_empty() {
        let usual = ["faa", "forgetting_from_best", "bytes"];
        metrics.extend(usual.iter().filter_map(|name| Metric::parse(name).ok()));
    }
    metrics.retain(|metric| content.arms.iter().any(|arm| arm.spread(metric).is_some()));
    let parts = content.figures();
    let of = |metric| {
        let parts = parts.iter().enumerate();
        parts.map(move |(number, (name, arms))| figure(content, metric, (number, name), arms))
    };
    PageSection::of_figures("metrics", "Metrics over arms", metrics.iter().flat_map(of).collect())
}

/// Returns the label of a metric's values, which stay in base units.
pub(super) fn label(metric: &Metric) -> Label {
    match metric.unit() {
        Unit::Share => Label::Percent,
        Unit::Points => Label::Points,
        Unit::Bytes => Label::Bytes,
        Unit::Seconds => Label::Seconds,
        Unit::Flops | Unit::Megabytes | Unit::Count | Unit::Number => Label::Number,
    }
}

/// Returns the figure of the arms of one part of the grid; `part` is its number and name.
fn figure(content: &PageContent, metric: &Metric, part: (usize, &str), arms: &[usize]) -> Figure {
    let spread = |arm: usize| content.arms[arm].spread(metric);
    let ends = |arm: usize| {
        let spread = spread(arm);
        let reach = move |sign: f64| spread.map(|s| s.mean + sign * s.deviation.unwrap_or(0.0));
        [reach(-1.0), reach(1.0)]
    };
    // The range covers all parts, so that their figures can be compared.
    let ends: Vec<f64> = (0..content.arms.len()).flat_map(ends).flatten().collect();
    let title = label(metric).titled(metric.title());
    let values = match metric.unit() {
        Unit::Bytes => PlotAxis::wide(&title, ends, label(metric)),
        _ => PlotAxis::linear(&title, ends, label(metric)),
    };
    let panel = match &content.x {
        Some(x) => over(content, metric, arms, (x, values)),
        None => beside(content, metric, values),
    };
    let named = |number: usize| content.series()[number].clone();
    let legend: Vec<(usize, String)> = match &content.x {
        Some(_) => panel.series.iter().map(|s| (s.number, named(s.number))).collect(),
        None => Vec::new(),
    };
    let mut numbers = HtmlTable::new(1, ["arm", "n", metric.heading().as_str()]);
    for (index, arm) in arms.iter().map(|index| (*index, &content.arms[*index])) {
        if let Some(s) = spread(index) {
            let show = |value| metric.show(value);
            let value = with_spread(show(s.mean), s.deviation.map(show));
            numbers.row([arm.label(), s.n.to_string(), value]);
        }
    }
    let what = metric.title();
    let description = match &content.x {
        Some(x) => format!(
            "Mean {what} over {x}, one line per series; error bars are one sample standard deviation. Places on the \
             horizontal axis are evenly spaced, whatever the values."
        ),
        None => format!("Mean {what} of every arm; error bars are one sample standard deviation."),
    };
    Figure {
        id: match part {
            (0, _) => format!("metric-{}", slug(metric.name())),
            (number, _) => format!("metric-{}-part-{}", slug(metric.name()), number + 1),
        },
        title: match part {
            (_, "") => metric.heading(),
            (_, name) => format!("{}, {name}", metric.heading()),
        },
        description,
        drawing: chart(&[panel]),
        mark: Mark::Line,
        legend,
        numbers,
    }
}

/// Returns the metric over the values of `x`, one series per name.
fn over(content: &PageContent, metric: &Metric, arms: &[usize], (x, y): (&str, PlotAxis)) -> Panel {
    let places = content.values(x);
    let mut series: Vec<Series> = Vec::new();
    for (index, arm) in arms.iter().map(|index| (*index, &content.arms[*index])) {
        let place = places.iter().position(|place| Some(place.as_str()) == arm.axis(x));
        let (Some(place), Some(spread)) = (place, arm.spread(metric)) else { continue };
        let number = content.number(index);
        // Series are shifted slightly, so that equal ones do not hide each other.
        let aside = 0.04 * (number as f64 - (content.series().len() - 1) as f64 / 2.0);
        let x = place as f64 + aside;
        let point = ChartPoint { spread: spread.deviation, ..ChartPoint::new(x, spread.mean) };
        match series.iter_mut().find(|series| series.number == number) {
            Some(series) => series.points.push(point),
            None => series.push(Series { number, points: vec![point], look: Look::Joined }),
        }
    }
    series.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    Panel { x: PlotAxis::places(x, &places), y, series }
}

/// Returns one row per arm, the first on top.
fn beside(content: &PageContent, metric: &Metric, x: PlotAxis) -> Panel {
    let names: Vec<String> = content.arms.iter().rev().map(|arm| arm.label()).collect();
    let last = content.arms.len() - 1;
    let point = |(index, arm): (usize, &crate::results::Arm)| {
        let spread = arm.spread(metric)?;
        let place = (last - index) as f64;
        let point =
            ChartPoint { x_spread: spread.deviation, ..ChartPoint::new(spread.mean, place) };
        Some(Series { number: content.number(index), points: vec![point], look: Look::Marks })
    };
    let series = content.arms.iter().enumerate().filter_map(point).collect();
    Panel { x, y: PlotAxis::places("", &names), series }
}
