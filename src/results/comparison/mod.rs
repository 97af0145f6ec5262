//! Comparison of groups of runs: differing keys, first differing rounds, and metrics.
//!
//! The first group is the baseline. Differences are those of runs with equal seeds, as in [`Paired`]; without such
//! runs they are differences of means, without a test.

mod limit;
mod text;

use std::collections::BTreeSet;

use serde::Serialize;

pub use limit::MetricLimit;

use super::differences::Differences;
use super::trace::{FirstDifferences, Trace};
use super::{Arm, Better, Metric, Paired, ResultsError, Spread};
use crate::document::Document;
use crate::experiment::Seeds;
use crate::methods::Registry;
use crate::report::words::CONTROL;

/// Default metrics of a comparison.
const USUAL: [&str; 13] = [
    "faa",
    "micro",
    "average_incremental",
    "forgetting",
    "forgetting_from_best",
    "bytes_down",
    "bytes_up",
    "rounds",
    "participants",
    "clients_sampled",
    "sample_passes",
    "virtual_s",
    "wall_s",
];

/// Comparison of groups of runs with the first group.
#[derive(Clone, Debug, Serialize, Document)]
pub struct Comparison {
    /// Groups in order; the first is the baseline.
    pub groups: Vec<Group>,
    /// Differences of the groups' scenarios, apart from seeds.
    pub scenario: Differences,
    /// First differences of each other group, by its first pair of equal seeds; `None` without a pair.
    pub parting: Vec<Option<Parting>>,
    /// Rows of metrics.
    pub metrics: Vec<MetricRow>,
    /// Mean bytes by direction and kind.
    pub bytes: Vec<MetricRow>,
}

/// Group of runs in a comparison.
#[derive(Clone, Debug, Serialize, Document)]
pub struct Group {
    /// Name as given, or label of the arm.
    pub name: String,
    /// Method of the first run; empty without runs.
    pub method: String,
    /// Seeds of the complete runs.
    pub seeds: Vec<Seeds>,
    /// Number of incomplete runs, which are left out.
    pub unfinished: usize,
    /// Duplicate runs, which are left out.
    pub repeats: Vec<String>,
    #[serde(skip)]
    arm: Arm,
}

/// First differences of a group from the first group.
#[derive(Clone, Copy, Debug, Serialize, Document)]
pub struct Parting {
    /// Seeds of the compared runs.
    pub seeds: Seeds,
    /// Rounds of the first differences, from 1.
    #[serde(flatten)]
    pub first: FirstDifferences,
}

/// A metric of all groups.
#[derive(Clone, Debug, Serialize, Document)]
pub struct MetricRow {
    /// Name of the metric, as in `--metric`.
    pub name: String,
    /// Title in tables.
    pub title: String,
    /// Mean and deviation by group; `None` if no run has the metric.
    pub spread: Vec<Option<Spread>>,
    /// Difference from the first group, for each of the others.
    pub against: Vec<Option<Against>>,
    /// Metric, with its unit and its better direction.
    #[serde(skip)]
    pub metric: Metric,
}

/// Difference of a group from the first group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Document)]
pub struct Against {
    /// Mean difference.
    pub difference: f64,
    /// Number of pairs with equal seeds that both have the metric; 0 for a difference of means.
    pub pairs: usize,
    /// Number of further pairs in which only the first group has the metric.
    pub missing: usize,
    /// Number of further pairs in which only this group has the metric.
    pub missing_in_first: usize,
    /// Confidence interval of the mean difference at 95 %.
    pub interval: Option<(f64, f64)>,
    /// Two-sided p value of the paired t test.
    pub p: Option<f64>,
    /// Verdict on the difference.
    pub verdict: Verdict,
}

/// Verdict on a group, compared with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Document)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The group is better than the first, significantly if there are several pairs.
    Better,
    /// The group is worse than the first, significantly if there are several pairs.
    Worse,
    /// Equal to the last digit.
    Equal,
    /// The interval contains both signs, or there are no pairs.
    Unsure,
    /// No direction of the metric is better.
    Other,
}

impl Comparison {
    /// Compares named arms in `metrics`, or in the default ones if that is empty.
    ///
    /// # Errors
    /// Fails if a default metric has no valid name, which does not happen.
    pub fn of(
        groups: Vec<(String, Arm)>,
        metrics: &[Metric],
        methods: &Registry,
    ) -> Result<Comparison, ResultsError> {
        let groups: Vec<Group> =
            groups.into_iter().map(|(name, arm)| Group::of(name, arm)).collect();
        let scenarios: Vec<_> = groups.iter().map(|group| &group.arm.scenario).collect();
        let scenario = Differences::of(&scenarios, methods);
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

/// Returns the metrics of all kinds of payload in any run of any group, in both directions.
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
        let pairs = other.pairs(first).into_iter();
        let figures: Vec<_> =
            pairs.map(|(one, two)| (one.figure(metric), two.figure(metric))).collect();
        let missing = figures.iter().filter(|pair| matches!(pair, (None, Some(_)))).count();
        let missing_in_first =
            figures.iter().filter(|pair| matches!(pair, (Some(_), None))).count();
        let both: Vec<_> = figures.into_iter().filter_map(|(one, two)| one.zip(two)).collect();
        let (difference, pairs, interval, p, verdict) = match Paired::of(&both) {
            Some(paired) => {
                let verdict = match Verdict::of(metric, &paired) {
                    // Pairs that lack the metric are left out of the mean, in favor of the group that lacks it.
                    Verdict::Better | Verdict::Equal if missing > 0 => Verdict::Unsure,
                    Verdict::Worse | Verdict::Equal if missing_in_first > 0 => Verdict::Unsure,
                    verdict => verdict,
                };
                (paired.mean, paired.n, paired.interval, paired.p, verdict)
            }
            None => {
                let difference = other.spread(metric)?.mean - first.spread(metric)?.mean;
                let judged = metric.better() != Better::Neither;
                let verdict = if judged { Verdict::Unsure } else { Verdict::Other };
                (difference, 0, None, None, verdict)
            }
        };
        Some(Against { difference, pairs, missing, missing_in_first, interval, p, verdict })
    }

    /// Returns the number of pairs of equal seeds in which at least one group has the metric.
    fn pairs_of_either(&self) -> usize {
        self.pairs + self.missing + self.missing_in_first
    }
}

impl Verdict {
    fn of(metric: &Metric, Paired { mean, interval, .. }: &Paired) -> Verdict {
        let sure = interval.is_none_or(|(low, high)| low > 0.0 || high < 0.0);
        match () {
            () if *mean == 0.0 && interval.is_none_or(|interval| interval == (0.0, 0.0)) => {
                Verdict::Equal
            }
            () if metric.better() == Better::Neither => Verdict::Other,
            () if !sure => Verdict::Unsure,
            () if metric.prefers(*mean, 0.0) => Verdict::Better,
            () => Verdict::Worse,
        }
    }
}
