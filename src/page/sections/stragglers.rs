//! Stragglers: durations of rounds, latencies of clients, late and lost uploads, by round.

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::{Figure, HtmlTable, Mark, with_spread};
use crate::page::plot::{ChartPoint, Label, Look, Panel, PlotAxis, Series, chart};
use crate::results::{RoundTiming, Spread, thinned};

/// Most points of a line; more cannot be distinguished.
const POINTS: usize = 50;

/// Rounds of an arm.
type Rounds = (usize, Vec<RoundTiming>);

/// Quantity of a round: heading, unit, value.
type Quantity = (&'static str, Label, fn(&RoundTiming) -> Option<Spread>);

const TIMES: [Quantity; 3] = [
    ("duration of the round (s)", Label::Seconds, |round| Some(round.duration)),
    ("median latency of clients (s)", Label::Seconds, |round| round.latency),
    ("latency of the slowest client (s)", Label::Seconds, |round| round.slowest),
];

const MISSING: [Quantity; 2] = [
    ("clients too late", Label::Number, |round| Some(round.late)),
    ("clients lost", Label::Number, |round| Some(round.lost)),
];

/// Returns figures for each of [`PageContent::charts`], if rounds take time or uploads are missing.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let mut figures = Vec::new();
    for (number, (name, arms)) in content.charts().iter().enumerate() {
        let rounds = |arm: &usize| (*arm, content.arms[*arm].round_timings());
        let all: Vec<Rounds> = arms.iter().map(rounds).filter(|(_, all)| all.len() > 1).collect();
        // A quantity that is zero throughout has no panel.
        let seen = |of: &[Quantity]| -> Vec<Quantity> {
            let rounds = || all.iter().flat_map(|(_, rounds)| rounds);
            let any = |(.., value): &&Quantity| {
                rounds().filter_map(value).any(|spread| spread.mean > 0.0)
            };
            of.iter().filter(any).copied().collect()
        };
        let (times, missing) = (seen(&TIMES), seen(&MISSING));
        let at = if name.is_empty() { String::new() } else { format!(", {name}") };
        if !times.is_empty() {
            figures.push(figure(
                content,
                &times,
                &all,
                format!("timing-{}", number + 1),
                format!("Rounds and latencies{at}"),
                "Mean over runs by round, in virtual time: the round from opening to closing, and the time from its \
                 opening until the upload of a client arrived, late ones included.",
            ));
        }
        if !missing.is_empty() {
            figures.push(figure(
                content,
                &missing,
                &all,
                format!("missing-{}", number + 1),
                format!("Late and lost uploads{at}"),
                "Mean clients over runs by round. Too late are uploads that arrived after closing, also if a later \
                 round used them, and those that were not computed because they would have; lost are clients that \
                 crashed, were away or whose messages were lost.",
            ));
        }
    }
    PageSection::of_figures("stragglers", "Stragglers by round", figures)
}

fn figure(
    content: &PageContent,
    quantities: &[Quantity],
    all: &[Rounds],
    id: String,
    title: String,
    text: &str,
) -> Figure {
    let head = ["series", "round"].into_iter().chain(quantities.iter().map(|(name, ..)| *name));
    let mut numbers = HtmlTable::new(1, head);
    for (arm, rounds) in all {
        for round in thinned(rounds, POINTS) {
            let value = |(_, label, of): &Quantity| {
                let Some(Spread { mean, deviation, .. }) = of(&round) else { return String::new() };
                let show = |value| label.exact(value);
                with_spread(show(mean), deviation.map(show))
            };
            let first = [content.curve_name(*arm), round.round.to_string()];
            numbers.arm_row(*arm, first.into_iter().chain(quantities.iter().map(value)));
        }
    }
    let panels: Vec<Panel> =
        quantities.iter().map(|quantity| panel(content, quantity, all)).collect();
    Figure {
        id,
        title,
        description: format!("{text} Long lines are thinned to {POINTS} points."),
        drawings: chart(&panels),
        mark: Mark::Line,
        legend: all
            .iter()
            .map(|(arm, _)| (content.curve_number(*arm), content.curve_name(*arm)))
            .collect(),
        numbers,
    }
}

fn panel(content: &PageContent, (title, label, of): &Quantity, all: &[Rounds]) -> Panel {
    let points = |rounds: &[RoundTiming]| -> Vec<ChartPoint> {
        let point =
            |round: &RoundTiming| Some(ChartPoint::new(round.round as f64, of(round)?.mean));
        thinned(rounds, POINTS).iter().filter_map(point).collect()
    };
    let series: Vec<Series> = all
        .iter()
        .map(|(arm, rounds)| Series {
            number: content.curve_number(*arm),
            points: points(rounds),
            look: Look::Band,
        })
        .collect();
    let values = |of: fn(&ChartPoint) -> f64| {
        series.iter().flat_map(|series| &series.points).map(of).collect::<Vec<f64>>()
    };
    let x = PlotAxis::from_zero("round", values(|point| point.x), Label::Count);
    let y = PlotAxis::from_zero(title, values(|point| point.y), *label);
    Panel { x, y, series }
}
