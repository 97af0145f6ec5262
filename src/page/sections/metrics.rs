//! Metrics over the horizontal axis, with error bars. They are those of the main table unless a study names plots.

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{Figure, HtmlTable, Mark, slug, with_spread};
use crate::page::plot::{ChartPoint, Label, Look, Panel, PlotAxis, Series, chart};
use crate::results::{Metric, Unit};
use crate::study::Plot;

/// Returns one figure per chosen metric; by default per metric of the main table.
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
        metrics.clone_from(&content.metrics);
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
        None => below(content, metric, values),
    };
    let named = |number: usize| content.series()[number].clone();
    let legend: Vec<(usize, String)> = match &content.x {
        Some(_) => panel.series.iter().map(|s| (s.number, named(s.number))).collect(),
        None => Vec::new(),
    };
    let mut numbers = HtmlTable::new(1, ["arm", "n", metric.heading().as_str()]);
    for index in arms.iter().copied() {
        if let Some(s) = spread(index) {
            let show = |value| metric.show_grouped(value);
            let value = with_spread(show(s.mean), s.deviation.map(show));
            numbers.arm_row(index, [content.label(index), s.n.to_string(), value]);
        }
    }
    let what = metric.title();
    let description = match &content.x {
        Some(x) if content.is_numeric(x) => format!(
            "Mean {what} over {x}, one line per series; error bars are one sample standard deviation. Places on the \
             horizontal axis are evenly spaced, whatever the values."
        ),
        Some(x) => format!(
            "Mean {what} by {x}, one mark per series; error bars are one sample standard deviation."
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
        drawings: chart(&[panel]),
        mark: Mark::Line,
        legend,
        numbers,
    }
}

/// Distance of series over numbers and, over names, the part of a place that all marks share.
const ASIDE: [f64; 2] = [0.04, 0.6];

/// Room for the names along the bottom, in characters.
const ALONG: usize = 76;

/// Returns the metric by value of `x`, one series per name: lines over numbers, marks around names.
///
/// Names that are too long to stand along the bottom are rows.
fn over(content: &PageContent, metric: &Metric, arms: &[usize], (x, y): (&str, PlotAxis)) -> Panel {
    let values = content.values(x);
    let numeric = content.is_numeric(x);
    let names: Vec<String> = values.iter().map(|value| content.shown(value).to_owned()).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let rows = !numeric && (longest + 2) * names.len() > ALONG;
    let count = content.series().len();
    let step = if numeric { ASIDE[0] } else { ASIDE[1] / count as f64 };
    let look = if numeric { Look::Joined } else { Look::Marks };
    let mut series: Vec<Series> = Vec::new();
    for (index, arm) in arms.iter().map(|index| (*index, &content.arms[*index])) {
        let place = values.iter().position(|value| Some(value.as_str()) == arm.axis(x));
        let (Some(place), Some(spread)) = (place, arm.spread(metric)) else { continue };
        let number = content.number(index);
        // Series are shifted, so that equal ones do not hide each other.
        let aside = step * (number as f64 - (count - 1) as f64 / 2.0);
        let point = if rows {
            // The first name is on top, and so is the first series.
            let at = (values.len() - 1 - place) as f64 - aside;
            ChartPoint { x_spread: spread.deviation, ..ChartPoint::new(spread.mean, at) }
        } else {
            let at = place as f64 + aside;
            ChartPoint { spread: spread.deviation, ..ChartPoint::new(at, spread.mean) }
        };
        match series.iter_mut().find(|series| series.number == number) {
            Some(series) => series.points.push(point),
            None => series.push(Series { number, points: vec![point], look }),
        }
    }
    series.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    if rows {
        let names: Vec<&String> = names.iter().rev().collect();
        return Panel { x: y, y: PlotAxis::places("", &names), series };
    }
    Panel { x: PlotAxis::places(x, &names), y, series }
}

/// Returns one row per arm, the first on top.
fn below(content: &PageContent, metric: &Metric, x: PlotAxis) -> Panel {
    let count = content.arms.len();
    let names: Vec<String> = (0..count).rev().map(|arm| content.label(arm)).collect();
    let point = |(index, arm): (usize, &crate::results::Arm)| {
        let spread = arm.spread(metric)?;
        let place = (count - 1 - index) as f64;
        let point =
            ChartPoint { x_spread: spread.deviation, ..ChartPoint::new(spread.mean, place) };
        Some(Series { number: content.number(index), points: vec![point], look: Look::Marks })
    };
    let series = content.arms.iter().enumerate().filter_map(point).collect();
    Panel { x, y: PlotAxis::places("", &names), series }
}
