//! Bytes by kind, stacked, and accuracy over bytes.

use std::collections::BTreeSet;

use super::metrics::label;
use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{Figure, HtmlTable, Mark, slug, with_spread};
use crate::page::plot::{Bar, ChartPoint, Label, Look, Panel, PlotAxis, Series, bars, chart};
use crate::report::words::CONTROL;
use crate::results::{Arm, Better, Metric, Spread, equal_up_to_rounding};
use crate::study::Plot;

/// Returns the figures of bytes in both directions and of accuracy over bytes.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let mut figures = Vec::new();
    if content.plots.is_empty() || content.plots.contains(&Plot::BytesByKind) {
        figures.extend(by_kind(content, "down", "Bytes to clients, by kind"));
        figures.extend(by_kind(content, "up", "Bytes to the server, by kind"));
    }
    let usual: Vec<Plot> = Plot::parse("pareto:bytes:faa").into_iter().collect();
    let plots = if content.plots.is_empty() { &usual } else { &content.plots };
    figures.extend(plots.iter().filter_map(|plot| match plot {
        Plot::Pareto(x, y) => pareto(content, x, y),
        _ => None,
    }));
    PageSection::of_figures("bytes", "Bytes", figures)
}

fn by_kind(content: &PageContent, way: &str, title: &str) -> Option<Figure> {
    // A kind has the same color in both directions.
    let runs = || content.arms.iter().flat_map(|arm| arm.done());
    let kinds: BTreeSet<String> =
        runs().flat_map(|run| [run.kinds("down"), run.kinds("up")].concat()).collect();
    let kinds: Vec<String> = [CONTROL.to_owned()].into_iter().chain(kinds).collect();
    let metrics: Vec<Option<Metric>> =
        kinds.iter().map(|kind| Metric::bytes_of_kind(way, kind)).collect();
    let mut numbers = HtmlTable::new(2, ["arm", "kind", "bytes (mean)"]);
    let mut rows = Vec::new();
    let mut used = BTreeSet::new();
    let done = |(_, arm): &(usize, &Arm)| arm.done().next().is_some();
    for (index, arm) in content.arms.iter().enumerate().filter(done) {
        let mean = |metric: &Option<Metric>| Some(arm.spread(metric.as_ref()?)?.mean);
        let parts: Vec<(usize, f64)> =
            metrics.iter().map(|metric| mean(metric).unwrap_or(0.0)).enumerate().collect();
        for (kind, bytes) in parts.iter().filter(|(_, bytes)| *bytes > 0.0) {
            numbers.arm_row(
                index,
                [content.label(index), kinds[*kind].clone(), Label::Bytes.exact(*bytes)],
            );
            used.insert(*kind);
        }
        rows.push(Bar { name: content.label(index), parts });
    }
    let whole: f64 = rows.iter().flat_map(|bar| &bar.parts).map(|(_, part)| part).sum();
    (whole > 0.0).then(|| Figure {
        id: format!("bytes-{way}"),
        title: title.to_owned(),
        description: "Mean bytes of whole runs, one bar per arm. Parts are kinds of payload; control is headers, typed \
                      fields and tensor tables."
            .to_owned(),
        drawings: vec![bars("bytes", Label::Bytes, &rows)],
        mark: Mark::Field,
        legend: used.into_iter().map(|kind| (kind, kinds[kind].clone())).collect(),
        numbers,
    })
}

/// Returns true if the first values are no worse in both metrics, and better in at least one.
///
/// Means of equal values differ in their last bits.
fn dominates(values: [(&Metric, f64, f64); 2]) -> bool {
    let is_tied = |(_, one, other): &(&Metric, f64, f64)| equal_up_to_rounding(*one, *other);
    values.iter().all(|it| is_tied(it) || it.0.prefers(it.1, it.2)) && !values.iter().all(is_tied)
}

/// Returns one metric over another, with the arms that no other arm beats in both.
fn pareto(content: &PageContent, x: &Metric, y: &Metric) -> Option<Figure> {
    let spreads = content
        .arms
        .iter()
        .enumerate()
        .filter_map(|(arm, of)| Some((arm, of.spread(x)?, of.spread(y)?)));
    let spreads: Vec<(usize, Spread, Spread)> = spreads.collect();
    if spreads.len() < 2 {
        return None;
    }
    let beats = |one: &(usize, Spread, Spread), other: &(usize, Spread, Spread)| {
        dominates([(x, one.1.mean, other.1.mean), (y, one.2.mean, other.2.mean)])
    };
    let judged = x.better() != Better::Neither && y.better() != Better::Neither;
    let best = |one: &&(usize, Spread, Spread)| judged && !spreads.iter().any(|o| beats(o, one));
    let mut frontier: Vec<&(usize, Spread, Spread)> = spreads.iter().filter(best).collect();
    frontier.sort_by(|one, other| one.1.mean.total_cmp(&other.1.mean));
    let on_frontier: BTreeSet<usize> = frontier.iter().map(|(arm, ..)| *arm).collect();
    let line = frontier.iter().map(|(_, x, y)| ChartPoint::new(x.mean, y.mean)).collect();
    let mut series = vec![Series { number: 0, points: line, look: Look::Frontier }];
    let mut numbers = HtmlTable::new(
        1,
        ["arm".to_owned(), x.heading(), y.heading(), "on the frontier".to_owned()],
    );
    for (arm, one, two) in &spreads {
        let point = ChartPoint {
            spread: two.deviation,
            x_spread: one.deviation,
            ..ChartPoint::new(one.mean, two.mean)
        };
        series.push(Series {
            number: content.number(*arm),
            points: vec![point],
            look: Look::Marks,
        });
        let said = |metric: &Metric, spread: &Spread| {
            let show = |value| metric.show_grouped(value);
            with_spread(show(spread.mean), spread.deviation.map(show))
        };
        let best = if on_frontier.contains(arm) { "yes" } else { "" };
        numbers.arm_row(*arm, [content.label(*arm), said(x, one), said(y, two), best.to_owned()]);
    }
    let ends = |of: fn(&(usize, Spread, Spread)) -> &Spread| {
        let reach = move |arm: &(usize, Spread, Spread)| {
            let spread = *of(arm);
            let deviation = spread.deviation.unwrap_or(0.0);
            [spread.mean - deviation, spread.mean + deviation]
        };
        spreads.iter().flat_map(reach).collect::<Vec<f64>>()
    };
    let title = |metric: &Metric| label(metric).titled(metric.title());
    let panel = Panel {
        x: PlotAxis::wide(&title(x), ends(|arm| &arm.1), label(x)),
        y: PlotAxis::linear(&title(y), ends(|arm| &arm.2), label(y)),
        series,
    };
    let mut legend: Vec<(usize, String)> = Vec::new();
    for (arm, ..) in &spreads {
        let entry = (content.number(*arm), content.series_name(*arm));
        if !legend.contains(&entry) {
            legend.push(entry);
        }
    }
    Some(Figure {
        id: format!("pareto-{}", slug(&format!("{x}:{y}"))),
        title: format!("{} for {}", y.title(), x.title()),
        description: format!(
            "One mark per arm; error bars are one sample standard deviation. The dashed line joins arms that no other \
             beats in both ({} of {}).",
            on_frontier.len(),
            spreads.len()
        ),
        drawings: chart(&[panel]),
        mark: Mark::Line,
        legend,
        numbers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_beats_another_in_no_metric_by_its_last_bit() {
        let (bytes, faa) = (Metric::parse("bytes_up").unwrap(), Metric::parse("faa").unwrap());
        let beats = |one: (f64, f64), other: (f64, f64)| {
            dominates([(&bytes, one.0, other.0), (&faa, one.1, other.1)])
        };
        let third = 0.1 + 0.2;
        assert!(third > 0.3, "one is larger by its last bit");
        assert!(!beats((5.0, third), (5.0, 0.3)) && !beats((5.0, 0.3), (5.0, third)));
        assert!(beats((4.0, 0.3), (5.0, third)), "as good, for fewer bytes");
        assert!(beats((5.0, 0.4), (5.0, 0.3)) && !beats((5.0, 0.3), (5.0, 0.4)));
        assert!(!beats((6.0, 0.4), (5.0, 0.3)), "better for more bytes");
    }
}
