//! Main table: mean and deviation of every metric by arm, differences from baselines, and notes.
//!
//! A note says if the arms of a comparison are not equal in their cost.

use maud::{Markup, html};

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{HtmlCell, HtmlTable, with_spread};
use crate::results::{Arm, Metric, Paired, best, holm};

/// Relative difference up to which arms count as equal.
const EQUAL: f64 = 1e-9;

/// Caption of the main table.
const MAIN_CAPTION: &str = "Mean ± sample standard deviation over n runs that are done, or over (k) of them if the \
                            others lack the metric. Bold: the best mean among arms that differ in nothing else in the \
                            table, unless another lies within a standard deviation.";

/// Returns table, notes and differences.
pub fn section(content: &PageContent) -> Option<PageSection> {
    if content.arms.is_empty() {
        return None;
    }
    let notes = notes(content);
    let body = html! {
        (main_table(content, &notes).render(MAIN_CAPTION))
        @if !notes.is_empty() {
            ol.note { @for (number, (_, note)) in notes.iter().enumerate() {
                li id={ "note-" (number + 1) } { (note) }
            } }
        }
        (differences(content))
    };
    Some(PageSection::of("results", "Results", body))
}

/// Returns the axes that any arm has, in order.
fn axes(content: &PageContent) -> Vec<String> {
    let mut axes: Vec<String> = Vec::new();
    for (axis, _) in content.arms.iter().flat_map(|arm| &arm.axes) {
        if !axes.contains(axis) {
            axes.push(axis.clone());
        }
    }
    if axes.len() > 1 {
        axes.retain(|axis| axis != Arm::CELL);
    }
    axes
}

/// Returns the first cells of an arm's row.
fn names(content: &PageContent, arm: usize, axes: &[String]) -> Vec<HtmlCell> {
    if let Some(label) = content.arms[arm].axis(Arm::CELL) {
        let rest = axes.iter().skip(1).map(|_| "".into());
        return [content.shown(label).into()].into_iter().chain(rest).collect();
    }
    if axes.is_empty() {
        return vec![content.series_name(arm).into()];
    }
    axes.iter()
        .map(|axis| content.shown(content.arms[arm].axis(axis).unwrap_or("")).into())
        .collect()
}

fn main_table(content: &PageContent, notes: &[(Vec<usize>, String)]) -> HtmlTable {
    let axes = axes(content);
    let words = axes.len().max(1);
    let first = if axes.is_empty() { vec!["arm".to_owned()] } else { axes.clone() };
    let metrics = content.metrics.iter().map(Metric::heading);
    let mut table = HtmlTable::new(words, first.into_iter().chain(["n".to_owned()]).chain(metrics));
    for (index, arm) in content.arms.iter().enumerate() {
        let mut row = names(content, index, &axes);
        let noted = notes.iter().enumerate().filter(|(_, (arms, _))| arms.contains(&index));
        row[0].notes = noted.map(|(number, _)| number + 1).collect();
        row.push(arm.done().count().to_string().into());
        for metric in &content.metrics {
            let Some(spread) = arm.spread(metric) else {
                row.push("".into());
                continue;
            };
            let show = |value| metric.show_grouped(value);
            let mut entry =
                HtmlCell::from(with_spread(show(spread.mean), spread.deviation.map(show)));
            if spread.n < arm.done().count() {
                entry.text.push_str(&format!(" ({})", spread.n));
            }
            entry.best = is_best(content, index, metric);
            row.push(entry);
        }
        table.rows.push(row);
    }
    table
}

/// Returns the arms with the same value of `x`.
fn equals(content: &PageContent, arm: usize) -> Vec<usize> {
    let x = |arm: usize| content.x.as_ref().and_then(|x| content.arms[arm].axis(x));
    (0..content.arms.len()).filter(|other| x(*other) == x(arm)).collect()
}

fn is_best(content: &PageContent, arm: usize, metric: &Metric) -> bool {
    let figure = |arm: &Arm| (arm.spread(metric), arm.done().next().is_some());
    let group = equals(content, arm);
    let figures: Vec<_> = group.iter().map(|other| figure(&content.arms[*other])).collect();
    let mut marks = group.iter().zip(best(metric, &figures));
    marks.any(|(other, is_best)| *other == arm && is_best)
}

/// Returns a note on the arms of every group with the same `x` that differ in what should be equal.
fn notes(content: &PageContent) -> Vec<(Vec<usize>, String)> {
    let mut notes = Vec::new();
    for (place, _) in places(content) {
        let arms = equals(content, place);
        let parts: Vec<String> =
            content.unequal.iter().filter_map(|metric| unequal(content, &arms, metric)).collect();
        if parts.is_empty() {
            continue;
        }
        let at = match &content.x {
            Some(x) => format!("at {x}={} ", content.arms[place].axis(x).unwrap_or("")),
            None => String::new(),
        };
        // Arms without a run are not compared.
        let noted = |arm: &usize| content.arms[*arm].done().next().is_some();
        let noted = arms.iter().copied().filter(noted).collect();
        notes.push((noted, format!("{at}arms are not equal in {}", parts.join("; in "))));
    }
    notes
}

/// Returns the values of a metric by arm, if they differ.
fn unequal(content: &PageContent, arms: &[usize], metric: &Metric) -> Option<String> {
    let figure = |arm: &usize| Some((*arm, content.arms[*arm].spread(metric)?.mean));
    let figures: Vec<(usize, f64)> = arms.iter().filter_map(figure).collect();
    let (low, high) = figures
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), (_, f)| (low.min(*f), high.max(*f)));
    if figures.len() < 2 || high - low <= EQUAL * high.abs() {
        return None;
    }
    let each = figures.iter().map(|(arm, figure)| {
        format!("{} {}", content.series_name(*arm), metric.show_grouped(*figure))
    });
    Some(format!("{}: {}", metric.heading(), each.collect::<Vec<_>>().join(", ")))
}

/// Returns one arm of every value of `x`, and the number of its arms.
fn places(content: &PageContent) -> Vec<(usize, usize)> {
    let mut places: Vec<(usize, usize)> = Vec::new();
    for arm in 0..content.arms.len() {
        let equals = equals(content, arm);
        if equals.first() == Some(&arm) {
            places.push((arm, equals.len()));
        }
    }
    places
}

/// Renders the differences from baselines: one row per arm, one column per metric.
fn differences(content: &PageContent) -> Markup {
    let pairs = content.baselines.iter().enumerate();
    let pairs: Vec<(usize, usize)> =
        pairs.filter_map(|(arm, base)| base.map(|base| (arm, base))).collect();
    let of = |metric: &Metric| -> Vec<Option<Paired>> {
        let paired =
            |(arm, base): &(usize, usize)| content.arms[*arm].against(&content.arms[*base], metric);
        pairs.iter().map(paired).collect()
    };
    let columns: Vec<(&Metric, Vec<Option<Paired>>)> =
        content.metrics.iter().map(|metric| (metric, of(metric))).collect();
    let columns: Vec<_> =
        columns.into_iter().filter(|(_, all)| all.iter().any(Option::is_some)).collect();
    let heads = columns.iter().map(|(metric, _)| difference_heading(metric));
    let first = ["arm", "against", "pairs"].map(str::to_owned);
    let mut table = HtmlTable::new(2, first.into_iter().chain(heads));
    let texts: Vec<Vec<String>> = columns.iter().map(|(metric, all)| column(metric, all)).collect();
    for (row, (arm, base)) in pairs.iter().enumerate() {
        let counts = columns.iter().filter_map(|(_, all)| all[row].map(|paired| paired.n));
        let Some(n) = counts.max() else { continue };
        let first = [content.label(*arm), content.label(*base), n.to_string()];
        table.row(first.into_iter().chain(texts.iter().map(|column| column[row].clone())));
    }
    html! {
        @if !table.rows.is_empty() {
            h3 { "Differences, paired by seeds" }
            p.note {
                "Runs with equal seeds (run, partition and class order) are paired, and the difference is that of the "
                "arm minus its baseline, with the 95 % interval of its mean. Interval and p are those of the "
                (Paired::TEST) " test, p corrected by Holm's method for the number of tests of a metric; a single pair "
                "and differences that are all equal have neither."
            }
            (table.render("Mean difference from the baseline"))
        }
    }
}

/// Returns the heading of a column of differences.
fn difference_heading(metric: &Metric) -> String {
    match metric.unit().of_differences() {
        "" => metric.title().to_owned(),
        symbol => format!("{}, {symbol}", metric.title()),
    }
}

/// Formats the differences of a metric: mean, interval, corrected p.
fn column(metric: &Metric, all: &[Option<Paired>]) -> Vec<String> {
    let corrected =
        holm(&all.iter().map(|paired| paired.and_then(|one| one.p)).collect::<Vec<_>>());
    let text = |(paired, p): (&Option<Paired>, Option<f64>)| {
        let Some(Paired { n, mean, interval, .. }) = paired else { return String::new() };
        let mut text = metric.show_signed(*mean);
        if let Some((low, high)) = interval.filter(|_| *n > 1) {
            let (low, high) = (metric.show_signed(low), metric.show_signed(high));
            text.push_str(&format!(" ({low} to {high})"));
        }
        if let Some(p) = p {
            let shown = Paired::show_p(p);
            let sign = if shown.starts_with('<') { "" } else { "= " };
            text.push_str(&format!(", p {sign}{shown}"));
        }
        text
    };
    all.iter().zip(corrected).map(text).collect()
}
