//! Groups of runs side by side: what was asked differently, where they part, and who is better in what.
//!
//! The first group is what the others are measured against. Differences are of runs of the same seeds where there are
//! such, as [`Paired`] says; where there are none, they are of means, and no test is made up for them.

mod limit;
mod text;

use std::collections::BTreeSet;

use serde::Serialize;

pub use limit::Limit;

use super::differences::Differences;
use super::trace::{FirstDifferences, Trace};
use super::{Arm, Better, Metric, Paired, ResultsError, Spread};
use crate::experiment::Seeds;
use crate::report::words::CONTROL;

/// Metrics of a comparison unless somebody asks for others.
const USUAL: [&str; 13] = [
    "faa",
    "micro",
    "average_incremental",
    "forgetting",
    "forgetting_from_best",
    "bytes_down",
    "bytes_up",
    "rounds",
    "seats",
    "clients_sampled",
    "sample_passes",
    "virtual_s",
    "wall_s",
];

/// Groups of runs, compared with the first of them.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// In order; the first is the one that others are compared with.
    pub groups: Vec<Group>,
    /// In what their scenarios differ, apart from seeds.
    pub scenario: Differences,
    /// Where each group parts from the first, by the first pair of runs of equal seeds; `None` where there is none.
    pub parting: Vec<Option<Parting>>,
    /// Metric by metric.
    pub metrics: Vec<MetricRow>,
    /// Mean bytes by direction and kind.
    pub bytes: Vec<MetricRow>,
}

/// One group.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// As it was named, or as its arm is called.
    pub name: String,
    pub method: String,
    /// Runs that are done, by their seeds.
    pub seeds: Vec<Seeds>,
    /// Runs that are not, and are left out.
    pub unfinished: usize,
    /// Runs that are there once more, and are left out.
    pub repeats: Vec<String>,
    #[serde(skip)]
    arm: Arm,
}

/// Where a group parts from the first.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Parting {
    /// Of which runs.
    pub seeds: Seeds,
    #[serde(flatten)]
    pub first: FirstDifferences,
}

/// A metric of all groups.
#[derive(Clone, Debug, Serialize)]
pub struct MetricRow {
    /// As `--metric` takes it.
    pub name: String,
    pub title: String,
    /// Group by group; `None` where no run has it.
    pub spread: Vec<Option<Spread>>,
    /// Group by group but for the first: what it has more than the first.
    pub against: Vec<Option<Against>>,
    #[serde(skip)]
    pub metric: Metric,
}

/// What a group has more than the first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Against {
    /// The mean difference.
    pub difference: f64,
    /// Runs of equal seeds; 0 where the difference is one of means.
    pub pairs: usize,
    /// 95 % interval of the mean difference.
    pub interval: Option<(f64, f64)>,
    /// Two-sided, of the paired t test.
    pub p: Option<f64>,
    pub verdict: Verdict,
}

/// Who is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The group is better than the first: of several pairs, surely so.
    Better,
    Worse,
    /// To the last digit.
    Equal,
    /// The interval holds both signs, or nothing pairs.
    Unsure,
    /// The metric describes and does not judge.
    Other,
}

impl Comparison {
    /// Compares named arms in metrics, or in the usual ones.
    ///
    /// # Errors
    /// None for metrics that are parsed; the usual ones are.
    pub fn of(groups: Vec<(String, Arm)>, metrics: &[Metric]) -> Result<Comparison, ResultsError> {
        let groups: Vec<Group> =
            groups.into_iter().map(|(name, arm)| Group::of(name, arm)).collect();
        let scenarios: Vec<_> = groups.iter().map(|group| &group.arm.scenario).collect();
        let scenario = Differences::of(&scenarios);
        let parting = groups.iter().skip(1).map(|group| parting(&groups[0], group)).collect();
        let usual = || USUAL.iter().map(|name| Metric::parse(name)).collect::<Result<Vec<_>, _>>();
        let metrics = if metrics.is_empty() { usual()? } else { metrics.to_vec() };
        let rows = metrics.into_iter().map(|metric| MetricRow::of(metric, &groups));
        let metrics: Vec<MetricRow> = rows
            .filter(|row| row.metric.is_until() || row.spread.iter().any(Option::is_some))
            .collect();
        let bytes = kinds(&groups).into_iter().map(|metric| MetricRow::of(metric, &groups));
        Ok(Comparison { scenario, parting, metrics, bytes: bytes.collect(), groups })
    }
}

impl Group {
    fn of(name: String, arm: Arm) -> Group {
        let seeds: Vec<Seeds> = arm.done().map(|run| run.manifest.seeds).collect();
        let method = arm.runs.first().map_or_else(String::new, |run| run.manifest.method.clone());
        let repeats = arm.repeats.iter().map(ToString::to_string).collect();
        Group { name, method, unfinished: arm.runs.len() - seeds.len(), repeats, seeds, arm }
    }
}

/// The kinds of bytes that any run of any group has, downwards and upwards.
fn kinds(groups: &[Group]) -> Vec<Metric> {
    let of = |way: &'static str| {
        let runs = groups.iter().flat_map(|group| group.arm.done());
        let kinds: BTreeSet<String> = runs.flat_map(|run| run.kinds(way)).collect();
        let kinds = [CONTROL.to_owned()].into_iter().chain(kinds);
        kinds.filter_map(move |kind| Metric::bytes_of_kind(way, &kind))
    };
    of("down").chain(of("up")).collect()
}

fn parting(one: &Group, other: &Group) -> Option<Parting> {
    let pairs = other.arm.pairs(&one.arm);
    let (other, one) = pairs.first()?;
    let first = Trace::of(&one.path).first_differences(&Trace::of(&other.path));
    Some(Parting { seeds: one.manifest.seeds, first })
}

impl MetricRow {
    fn of(metric: Metric, groups: &[Group]) -> MetricRow {
        // A kind that a run did not send is no bytes of it.
        let spread = groups.iter().map(|group| group.arm.spread(&metric)).collect();
        let against = |group: &Group| Against::of(&metric, &groups[0].arm, &group.arm);
        MetricRow {
            name: metric.name().to_owned(),
            title: metric.title().to_owned(),
            spread,
            against: groups.iter().skip(1).map(against).collect(),
            metric,
        }
    }
}

impl Against {
    fn of(metric: &Metric, first: &Arm, other: &Arm) -> Option<Against> {
        if let Some(Paired { n, mean, interval, p, .. }) = other.against(first, metric) {
            let sure = interval.is_none_or(|(low, high)| low > 0.0 || high < 0.0);
            let verdict = match () {
                () if mean == 0.0 && interval.is_none_or(|interval| interval == (0.0, 0.0)) => {
                    Verdict::Equal
                }
                () if metric.better() == Better::Neither => Verdict::Other,
                () if !sure => Verdict::Unsure,
                () if metric.prefers(mean, 0.0) => Verdict::Better,
                () => Verdict::Worse,
            };
            return Some(Against { difference: mean, pairs: n, interval, p, verdict });
        }
        let difference = other.spread(metric)?.mean - first.spread(metric)?.mean;
        let judged = metric.better() != Better::Neither;
        let verdict = if judged { Verdict::Unsure } else { Verdict::Other };
        Some(Against { difference, pairs: 0, interval: None, p: None, verdict })
    }
}
