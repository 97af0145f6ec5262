//! `[expected]`: published numbers of what a scenario repeats, to be printed beside the measured ones.
//!
//! ```toml
//! [expected]
//! source = "Table 1"
//! faa = 90.39
//! note = "mean of 3 runs"
//! ```
//!
//! They decide nothing: runs with and without them are the same, in hash, digests and files but for
//! the effective scenario, the final table and `summary.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Override;
use super::reader::{Param, TableReader};
use crate::document::Document;

/// What somebody else measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExpectedSection {
    /// Where the numbers stand: a table of a paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What else is to be said of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The overrides of this run, in which it differs from the file the numbers belong to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Numbers as the final table prints them: in % and points.
    #[serde(flatten)]
    pub numbers: BTreeMap<ExpectedMetric, f64>,
}

/// A measure of a run; its word is that of `summary.json`.
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
    /// The same of the micro accuracy.
    AverageFromSecondStageMicro,
    /// Forgetting since a task was learned.
    Forgetting,
    /// Forgetting since a task was known best.
    ForgettingFromBest,
    /// The same over all tasks, the last one, too.
    ForgettingFromBestOfAll,
    /// Mean drop from task to task, over all tasks.
    ForgettingConsecutive,
    /// The same over old tasks.
    ForgettingConsecutiveOld,
    /// The same over the test samples of old tasks.
    ForgettingConsecutiveOldMicro,
    /// Of slots, which are known at test: mean accuracy at the end.
    Avg,
    /// Mean of that over periods.
    Aia,
    /// Forgetting of slots since they were known best.
    Fm,
    /// Forward transfer.
    Ft,
    /// Backward transfer.
    Bt,
    /// Total transfer.
    Tt,
}

impl ExpectedMetric {
    /// Every measure with its key and what that is.
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
            ("forgetting", Forgetting, "forgetting since learnt, points"),
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
            ("avg", Avg, "Avg of slots (known at test), %"),
            ("aia", Aia, "AIA of slots (known at test), %"),
            ("fm", Fm, "FM of slots (known at test), points"),
            ("ft", Ft, "FT of slots (known at test), points"),
            ("bt", Bt, "BT of slots (known at test), points"),
            ("tt", Tt, "TT of slots (known at test), points"),
        ]
    };

    /// Its key.
    pub fn word(self) -> &'static str {
        let own = ExpectedMetric::KEYS.iter().find(|(_, metric, _)| *metric == self);
        own.map_or("", |(word, ..)| word)
    }
}

impl ExpectedSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> ExpectedSection {
        let source = "where the numbers stand: a table of a paper";
        let note = "what else is to be said of them";
        let overrides = "written by a run: in what it differs from the file of the numbers";
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

    /// Notes that a run is not the one the numbers belong to, unless only they were overridden.
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
