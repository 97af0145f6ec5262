//! Main table: mean and deviation of every metric by arm, differences from baselines, and notes.
//!
//! A note says if the arms of a comparison are not equal in their cost.

use maud::{Markup, html};

use crate::page::PageSection;
use crate::page::axes::axes;
use crate::page::content::PageContent;
use crate::page::html::{HtmlCell, HtmlTable, with_spread};
use crate::results::{Arm, Metric, Paired, Spread, best, holm};

/// Relative difference up to which arms count as equal.
const EQUAL: f64 = 1e-9;

/// Caption of the main table.
const MAIN_CAPTION: &str = "Mean ± sample standard deviation over n runs that are done, or over (k) of them if the \
                            others lack the metric. Bold: the best mean among arms that are compared, over the seeds \
                            that all of them have, unless another lies within a standard deviation. Compared are arms \
                            that differ on the baseline's axes only, or on those with named arms, else on all but the \
                            horizontal one.";

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

/// Returns the axes that are columns of the table.
fn columns(content: &PageContent) -> Vec<String> {
    let mut axes = axes(&content.arms);
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
    let axes = columns(content);
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

/// Returns true if an arm's mean is the best among compared arms, over the seeds that all have.
fn is_best(content: &PageContent, arm: usize, metric: &Metric) -> bool {
    let group = content.comparable(arm);
    let arms = || group.iter().map(|other| &content.arms[*other]);
    let figures: Vec<_> = arms().map(|other| other.seeded_figures(metric)).collect();
    let spreads = Spread::over_shared_seeds(&figures);
    let figures: Vec<_> = spreads
        .into_iter()
        .zip(arms())
        .map(|(of, arm)| (of, arm.done().next().is_some()))
        .collect();
    let mut marks = group.iter().zip(best(metric, &figures));
    marks.any(|(other, is_best)| *other == arm && is_best)
}

/// Returns a note on the arms of every comparison that differ in what should be equal.
fn notes(content: &PageContent) -> Vec<(Vec<usize>, String)> {
    let mut notes = Vec::new();
    for arms in comparisons(content) {
        let parts: Vec<String> =
            content.unequal.iter().filter_map(|metric| unequal(content, &arms, metric)).collect();
        if parts.is_empty() {
            continue;
        }
        let equal =
            content.arms[arms[0]].axes.iter().filter(|(axis, _)| !content.compared.contains(axis));
        let equal: Vec<String> = equal.map(|(axis, value)| format!("{axis}={value}")).collect();
        let at = if equal.is_empty() { String::new() } else { format!("at {} ", equal.join(", ")) };
        // Arms without a run are not compared.
        let noted = |arm: &usize| content.arms[*arm].done().next().is_some();
        let noted = arms.iter().copied().filter(noted).collect();
        notes.push((noted, format!("{at}arms are not equal in {}", parts.join("; in "))));
    }
    notes
}

/// Returns the values of a metric by arm, over the seeds that all have, if they differ.
fn unequal(content: &PageContent, arms: &[usize], metric: &Metric) -> Option<String> {
    let seeded: Vec<_> = arms.iter().map(|arm| content.arms[*arm].seeded_figures(metric)).collect();
    let spreads = arms.iter().zip(Spread::over_shared_seeds(&seeded));
    let figures: Vec<(usize, f64)> =
        spreads.filter_map(|(arm, spread)| Some((*arm, spread?.mean))).collect();
    let (low, high) = figures
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), (_, f)| (low.min(*f), high.max(*f)));
    if figures.len() < 2 || high - low <= EQUAL * high.abs() {
        return None;
    }
    let each = figures.iter().map(|(arm, figure)| {
        format!("{} {}", content.compared_label(*arm), metric.show_grouped(*figure))
    });
    Some(format!("{}: {}", metric.heading(), each.collect::<Vec<_>>().join(", ")))
}

/// Returns the groups of arms that are compared.
fn comparisons(content: &PageContent) -> Vec<Vec<usize>> {
    let groups = (0..content.arms.len()).map(|arm| (arm, content.comparable(arm)));
    groups.filter(|(arm, group)| group.first() == Some(arm)).map(|(_, group)| group).collect()
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
