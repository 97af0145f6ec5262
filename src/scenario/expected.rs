//! `[expected]`: published numbers, printed next to the measured ones.
//!
//! ```toml
//! [expected]
//! source = "Table 1"
//! faa = 90.39
//! note = "mean of 3 runs"
//! ```
//!
//! They change no result: runs with and without them have the same hash, digests and files except for the effective
//! scenario, the final table and `summary.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Override;
use super::reader::{Param, TableReader};
use crate::document::Document;

/// Published numbers of another author.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExpectedSection {
    /// Source of the numbers, such as a table of a paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Remark on the numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Overrides by which this run differs from the file that the numbers belong to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Numbers as the final table prints them: in % and points.
    #[serde(flatten)]
    pub numbers: BTreeMap<ExpectedMetric, f64>,
}

/// Metric of a run, with the name that it has in `summary.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Document)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedMetric {
    /// Final average accuracy.
    Faa,
    /// Accuracy on all test samples at the end.
    Micro,
    /// Mean over stages of the macro accuracy.
    AverageIncremental,
    /// Mean over stages of the micro accuracy.
    AverageIncrementalMicro,
    /// Mean of the macro accuracy over stages without the first.
    AverageFromSecondStage,
    /// Mean of the micro accuracy over stages without the first.
    AverageFromSecondStageMicro,
    /// Forgetting since a task was learned.
    Forgetting,
    /// Forgetting since the best accuracy on a task.
    ForgettingFromBest,
    /// Forgetting since the best accuracy, over all tasks with the last one.
    ForgettingFromBestOfAll,
    /// Mean drop from task to task, over all tasks.
    ForgettingConsecutive,
    /// Mean drop from task to task, over old tasks.
    ForgettingConsecutiveOld,
    /// Mean drop from task to task, over the test samples of old tasks.
    ForgettingConsecutiveOldMicro,
    /// Mean accuracy of client tasks at the end, with the client task known at test.
    Avg,
    /// Mean of `Avg` over stages.
    Aia,
    /// Forgetting of client tasks since their best accuracy.
    Fm,
    /// Forward transfer.
    Ft,
    /// Backward transfer.
    Bt,
    /// Total transfer.
    Tt,
}

impl ExpectedMetric {
    /// All metrics with their keys and meanings.
    pub(crate) const KEYS: &'static [(&'static str, Self, &'static str)] = {
        use ExpectedMetric::*;
        &[
            ("faa", Faa, "final average accuracy, %"),
            ("micro", Micro, "accuracy on all test samples at the end, %"),
            ("average_incremental", AverageIncremental, "average incremental accuracy (macro), %"),
            (
                "average_incremental_micro",
                AverageIncrementalMicro,
                "average incremental accuracy (micro), %",
            ),
            (
                "average_from_second_stage",
                AverageFromSecondStage,
                "average accuracy (macro) from the second stage on, %",
            ),
            (
                "average_from_second_stage_micro",
                AverageFromSecondStageMicro,
                "average accuracy (micro) from the second stage on, %",
            ),
            ("forgetting", Forgetting, "forgetting since learned, points"),
            ("forgetting_from_best", ForgettingFromBest, "forgetting since best, points"),
            (
                "forgetting_from_best_of_all",
                ForgettingFromBestOfAll,
                "forgetting since best (of all tasks), points",
            ),
            (
                "forgetting_consecutive",
                ForgettingConsecutive,
                "forgetting from task to task (of all tasks), points",
            ),
            (
                "forgetting_consecutive_old",
                ForgettingConsecutiveOld,
                "forgetting from task to task (of old tasks), points",
            ),
            (
                "forgetting_consecutive_old_micro",
                ForgettingConsecutiveOldMicro,
                "forgetting from task to task (of old tasks, micro), points",
            ),
            ("avg", Avg, "Avg of client tasks (known at test), %"),
            ("aia", Aia, "AIA of client tasks (known at test), %"),
            ("fm", Fm, "FM of client tasks (known at test), points"),
            ("ft", Ft, "FT of client tasks (known at test), points"),
            ("bt", Bt, "BT of client tasks (known at test), points"),
            ("tt", Tt, "TT of client tasks (known at test), points"),
        ]
    };

    /// Returns the key of the metric.
    pub fn word(self) -> &'static str {
        let own = ExpectedMetric::KEYS.iter().find(|(_, metric, _)| *metric == self);
        own.map_or("", |(word, ..)| word)
    }
}

impl ExpectedSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> ExpectedSection {
        let source = "source of the numbers, such as a table of a paper";
        let note = "remark on the numbers";
        let overrides =
            "overrides by which a run differs from the file of the numbers; written by the run";
        let source = table.optional(&Param::unset("source", source));
        let note = table.optional(&Param::unset("note", note));
        let overrides = table.optional(&Param::unset("overrides", overrides));
        let mut numbers = BTreeMap::new();
        for (word, metric, doc) in ExpectedMetric::KEYS {
            let number = Param::<f64>::unset(word, doc).at_least(-100.0).at_most(100.0);
            numbers.extend(table.optional(&number).map(|number| (*metric, number)));
        }
        // A base may name a source for children of which some have no number.
        match numbers.is_empty() {
            true => ExpectedSection::default(),
            false => {
                ExpectedSection { source, note, overrides: overrides.unwrap_or_default(), numbers }
            }
        }
    }

    /// Notes overrides that make a run differ from the one the numbers belong to.
    pub(super) fn changed_by(&mut self, overrides: &[Override]) {
        if !self.numbers.is_empty() {
            let other = overrides.iter().map(Override::text);
            let other = other.filter(|text| !text.trim_start().starts_with("expected"));
            self.overrides.extend(other.map(str::to_owned));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}
