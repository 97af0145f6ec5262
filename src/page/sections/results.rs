//! Main table: mean and deviation of every metric by arm, differences from baselines, and notes.
//!
//! A note says if the arms of a comparison are not equal in their cost.

use maud::{Markup, html};

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{HtmlCell, HtmlTable, with_spread};
use crate::results::{Arm, Metric, Paired, best};

/// Relative difference up to which arms count as equal.
const EQUAL: f64 = 1e-9;

/// Caption of the main table.
const MAIN_CAPTION: &str = "Mean ± sample standard deviation over n runs that are done, or over (k) of them if the \
                            others lack the metric. Bold: the best mean among arms that differ in nothing else in the \
                            table.";

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
        return [label.into()].into_iter().chain(rest).collect();
    }
    if axes.is_empty() {
        return vec![content.series_name(arm).into()];
    }
    axes.iter().map(|axis| content.arms[arm].axis(axis).unwrap_or("").into()).collect()
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
            let show = |value| metric.show(value);
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
    let figure = |arm: &Arm| {
        let mean = arm.spread(metric).map(|spread| spread.mean);
        (mean, arm.done().next().is_some())
    };
    let group = equals(content, arm);
    let figures: Vec<_> = group.iter().map(|other| figure(&content.arms[*other])).collect();
    let mut marks = group.iter().zip(best(metric, &figures));
    marks.any(|(other, is_best)| *other == arm && is_best)
}

/// Returns arms with the same `x` that differ in what should be equal, each with a note.
fn notes(content: &PageContent) -> Vec<(Vec<usize>, String)> {
    let mut notes = Vec::new();
    for (place, _) in places(content) {
        let arms = equals(content, place);
        for metric in &content.unequal {
            let figure = |arm: &usize| Some((*arm, content.arms[*arm].spread(metric)?.mean));
            let figures: Vec<(usize, f64)> = arms.iter().filter_map(figure).collect();
            let (low, high) = figures
                .iter()
                .fold((f64::MAX, f64::MIN), |(low, high), (_, f)| (low.min(*f), high.max(*f)));
            if figures.len() < 2 || high - low <= EQUAL * high.abs() {
                continue;
            }
            let each = figures.iter().map(|(arm, figure)| {
                format!("{} {}", content.series_name(*arm), metric.show(*figure))
            });
            let where_ = match &content.x {
                Some(x) => format!("at {x}={} ", content.arms[place].axis(x).unwrap_or("")),
                None => String::new(),
            };
            let each = each.collect::<Vec<_>>().join(", ");
            let heading = metric.heading();
            // Arms without a run are not compared.
            let noted = |arm: &usize| content.arms[*arm].done().next().is_some();
            let noted = arms.iter().copied().filter(noted).collect();
            notes.push((noted, format!("{where_}arms are not equal in {heading}: {each}")));
        }
    }
    notes
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

fn differences(content: &PageContent) -> Markup {
    let pairs = content.baselines.iter().enumerate();
    let pairs: Vec<(usize, usize)> =
        pairs.filter_map(|(arm, base)| base.map(|base| (arm, base))).collect();
    let head = ["arm", "against", "metric", "difference", "95 % interval", "p", "pairs"];
    let mut table = HtmlTable::new(3, head);
    for (arm, base) in pairs {
        for metric in &content.metrics {
            let (one, other) = (&content.arms[arm], &content.arms[base]);
            let Some(paired) = one.against(other, metric) else { continue };
            let Paired { n, mean, interval, p, .. } = paired;
            let signed = |value: f64| metric.show_signed(value);
            let interval = interval.map_or("".to_owned(), |(low, high)| {
                format!("{} to {}", signed(low), signed(high))
            });
            table.row([
                one.label(),
                other.label(),
                metric.heading(),
                signed(mean),
                interval,
                p.map_or_else(String::new, Paired::show_p),
                n.to_string(),
            ]);
        }
    }
    html! {
        @if !table.rows.is_empty() {
            h3 { "Differences, paired by seeds" }
            p.note {
                "Runs with equal seeds (run, partition and class order) are paired, and the difference is that of the "
                "arm minus its baseline. Interval and p are those of the " (Paired::TEST) " test; a single pair and "
                "differences that are all equal have neither."
            }
            (table.render("Mean difference from the baseline"))
        }
    }
}
