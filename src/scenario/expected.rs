//! `[expected]`: published numbers, printed next to the measured ones.
//!
//! ```toml
//! [expected]
//! source = "Table 1"
//! faa = 90.39
//! deviation = { faa = 0.24 }
//! accuracy_by_stage = [85.2, 80.1]   # of the stages from `first_stage`, 2 unless given
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
    /// Accuracies on all classes seen after consecutive stages, in %.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accuracy_by_stage: Vec<f64>,
    /// Stage of the first of these accuracies, from 1; `None` without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_stage: Option<u32>,
    /// Standard deviations of numbers over runs, in their units.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub deviation: BTreeMap<ExpectedMetric, f64>,
}

/// Stage at which published accuracies by stage begin by default: the first one is the same for most methods.
const FIRST_STAGE: u32 = 2;

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
    pub(crate) fn read(table: &mut TableReader<'_>) -> ExpectedSection {
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
        let by_stage = "accuracies on all classes seen after consecutive stages, %";
        let by_stage = Param::<Vec<f64>>::unset("accuracy_by_stage", by_stage);
        let accuracy_by_stage = table.optional(&by_stage.at_least(0.0).at_most(100.0));
        let accuracy_by_stage = accuracy_by_stage.unwrap_or_default();
        let first = "stage of the first entry of `accuracy_by_stage`; by default 2";
        let first = table.optional(&Param::<u32>::unset("first_stage", first).at_least(1.0));
        let deviation = table.optional_table("deviation", read_deviations).unwrap_or_default();
        if let Some(metric) = deviation.keys().find(|metric| !numbers.contains_key(metric)) {
            let word = metric.word();
            let message = format!("the deviation of `{word}` has no number");
            let help = format!("write `{word}` next to `deviation`, or remove this key");
            table.reject_at(&format!("deviation.{word}"), &message, "of nothing", &help);
        }
        let first_stage = (!accuracy_by_stage.is_empty()).then(|| first.unwrap_or(FIRST_STAGE));
        let overrides = overrides.unwrap_or_default();
        let section = ExpectedSection {
            source,
            note,
            overrides,
            numbers,
            accuracy_by_stage,
            first_stage,
            deviation,
        };
        // A base may name a source for children of which some have no number.
        if section.is_empty() { ExpectedSection::default() } else { section }
    }

    /// Notes overrides that make a run differ from the one the numbers belong to.
    ///
    /// Seeds are not among them: a published number is one of other seeds, or a mean over several.
    pub(crate) fn changed_by(&mut self, overrides: &[Override]) {
        if !self.is_empty() {
            let other = overrides.iter().map(Override::text).filter(|text| decides(text));
            self.overrides.extend(other.map(str::to_owned));
        }
    }

    /// Returns true if nothing is published.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.accuracy_by_stage.is_empty()
    }
}

/// Returns true if an override sets another key than a published number or a seed.
fn decides(text: &str) -> bool {
    let table = text.split(['=', '.']).next().unwrap_or_default().trim();
    !["expected", "seed"].contains(&table)
}

fn read_deviations(table: &mut TableReader<'_>) -> BTreeMap<ExpectedMetric, f64> {
    let doc = "standard deviation of this number over runs, in its unit";
    let mut deviations = BTreeMap::new();
    for (word, metric, _) in ExpectedMetric::KEYS {
        let deviation = Param::<f64>::unset(word, doc).at_least(0.0).at_most(100.0);
        deviations.extend(table.optional(&deviation).map(|number| (*metric, number)));
    }
    deviations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::reader::read_text;

    fn read(text: &str) -> Result<ExpectedSection, String> {
        read_text(text, "example", ExpectedSection::read).map_err(|error| error.to_string())
    }

    #[test]
    fn a_deviation_belongs_to_its_own_number() {
        let text = "micro = 76.54\nfaa = 70\ndeviation = { micro = 1.14 }\n";
        let section = read(text).unwrap();
        assert_eq!(section.deviation, BTreeMap::from([(ExpectedMetric::Micro, 1.14)]));
        let again = toml::to_string(&section).unwrap();
        assert_eq!(read(&again).unwrap(), section, "{again}");
        for (wrong, place, hint) in [
            ("faa = 70\ndeviation = { micro = 1.14 }", "2:23", "write `micro` next to"),
            ("faa = 70\ndeviation = { fa = 1.14 }", "2:15", "did you mean `faa`?"),
            ("faa = 70\ndeviation = { faa = -1 }", "2:21", "must be at least 0"),
            ("faa = 70\ndeviation = 0.2", "2:13", "must be a table"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(&format!("example:{place}")), "{wrong}: {error}");
            assert!(error.contains(hint), "{wrong}: {error}");
        }
    }

    #[test]
    fn accuracies_by_stage_begin_at_the_second_unless_given() {
        let stages = |text: &str| {
            let section = read(text).unwrap();
            (section.accuracy_by_stage, section.first_stage)
        };
        assert_eq!(stages("accuracy_by_stage = [79.01, 69]"), (vec![79.01, 69.0], Some(2)));
        assert_eq!(stages("first_stage = 1\naccuracy_by_stage = [9]"), (vec![9.0], Some(1)));
        assert_eq!(stages("first_stage = 1"), (Vec::new(), None));
        assert!(read("accuracy_by_stage = [790.1]").unwrap_err().contains("at most 100"));
        let section = read("accuracy_by_stage = [79.01]").unwrap();
        assert_eq!(read(&toml::to_string(&section).unwrap()).unwrap(), section);
    }

    #[test]
    fn seeds_and_numbers_are_no_change_of_a_file() {
        let mut section = read("faa = 70").unwrap();
        let texts =
            ["seed.run=2", "seed = { run = 2 }", "expected.faa=71", "seeds.x=1", "client.epochs=2"];
        section.changed_by(&texts.map(Override::new));
        assert_eq!(section.overrides, ["seeds.x=1", "client.epochs=2"]);
        let mut nothing = read("source = \"Table 1\"").unwrap();
        nothing.changed_by(&[Override::new("client.epochs=2")]);
        assert_eq!(nothing, ExpectedSection::default());
    }
}
