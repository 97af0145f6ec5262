//! Published numbers next to the measured ones.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Accuracy, ClientTaskReport};
use crate::document::Document;
use crate::scenario::{ExpectedMetric, ExpectedSection};

/// Numbers of `[expected]` and those of this run, in % and points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Document)]
pub struct Published {
    /// Source of the published numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Note on the published numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Overrides of the run that the published numbers do not include.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// Published numbers, each with that of this run.
    pub numbers: Vec<PublishedNumber>,
    /// Published accuracies by stage, each with that of this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy_by_stage: Option<PublishedStages>,
}

/// Published number and that of this run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Document)]
pub struct PublishedNumber {
    /// Name of the number.
    pub metric: ExpectedMetric,
    /// Number as published, in % or points.
    pub published: f64,
    /// Published standard deviation over runs, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// Number of this run, in the same unit; null until the run ends, or if it is not measured.
    pub here: Option<f64>,
}

/// Published accuracies on all classes seen after consecutive stages, and those of this run, in %.
#[derive(Clone, Debug, PartialEq, Serialize, Document)]
pub struct PublishedStages {
    /// Stage of the first entry, from 1.
    pub first_stage: u32,
    /// Accuracies as published.
    pub published: Vec<f64>,
    /// Accuracies of this run after the same stages; null until the run ends, or if not measured.
    pub here: Vec<Option<f64>>,
}

impl Published {
    /// Returns the numbers of a run that has not ended; `None` if nothing is published.
    pub fn of(expected: &ExpectedSection) -> Option<Published> {
        let number = |(metric, published): (&_, &_)| PublishedNumber {
            metric: *metric,
            published: *published,
            deviation: expected.deviation.get(metric).copied(),
            here: None,
        };
        let stages = |first_stage| PublishedStages {
            first_stage,
            published: expected.accuracy_by_stage.clone(),
            here: vec![None; expected.accuracy_by_stage.len()],
        };
        (!expected.is_empty()).then(|| Published {
            source: expected.source.clone(),
            note: expected.note.clone(),
            overrides: expected.overrides.clone(),
            numbers: expected.numbers.iter().map(number).collect(),
            accuracy_by_stage: expected.first_stage.map(stages),
        })
    }

    /// Sets the numbers of this run.
    pub(super) fn measure(&mut self, accuracy: &Accuracy, client_tasks: Option<&ClientTaskReport>) {
        for number in &mut self.numbers {
            number.here =
                measured(number.metric, accuracy, client_tasks).map(|share| 100.0 * share);
        }
        if let Some(stages) = &mut self.accuracy_by_stage {
            let seen = accuracy.seen.iter().skip(stages.first_stage.saturating_sub(1) as usize);
            let seen = seen.map(|share| share.map(|share| 100.0 * share));
            let all = seen.chain(std::iter::repeat(None)).take(stages.published.len());
            stages.here = all.collect();
        }
    }

    /// Renders a line per number, and two for accuracies by stage.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let source = self.source.as_ref().map_or(String::new(), |source| format!(" ({source})"));
        for (at, number) in self.numbers.iter().enumerate() {
            let PublishedNumber { metric, published, deviation, here } = number;
            let head = if at == 0 { "published" } else { "" };
            let here = here.map_or("not measured".to_string(), |here| format!("{here:.2}"));
            let deviation = deviation.map_or(String::new(), |sd| format!(" ± {sd:.2}"));
            let word = metric.word();
            let _ =
                writeln!(text, "{head:<12}{word} {published:.2}{deviation}{source}, here {here}");
        }
        if let Some(PublishedStages { first_stage, published, here }) = &self.accuracy_by_stage {
            let head = if self.numbers.is_empty() { "published" } else { "" };
            let show = |number: Option<f64>| number.map_or("-".to_owned(), |n| format!("{n:.2}"));
            let list = |numbers: &mut dyn Iterator<Item = Option<f64>>| {
                numbers.map(show).collect::<Vec<_>>().join(", ")
            };
            let published = list(&mut published.iter().copied().map(Some));
            let _ = writeln!(
                text,
                "{head:<12}accuracy_by_stage from stage {first_stage}{source}\n            \
                 {published}\n            here {}",
                list(&mut here.iter().copied())
            );
        }
        if let Some(note) = &self.note {
            let _ = writeln!(text, "            {note}");
        }
        if !self.overrides.is_empty() {
            let sets: Vec<String> =
                self.overrides.iter().map(|set| format!("--set {set}")).collect();
            let _ = writeln!(
                text,
                "            of the unchanged scenario; this run has {}",
                sets.join(" ")
            );
        }
        text
    }
}

/// Returns the measured number as a fraction in `0..=1`.
fn measured(
    metric: ExpectedMetric,
    accuracy: &Accuracy,
    client_tasks: Option<&ClientTaskReport>,
) -> Option<f64> {
    let client_tasks = client_tasks.map(|client_tasks| client_tasks.til);
    match metric {
        ExpectedMetric::Faa => accuracy.faa,
        ExpectedMetric::Micro => accuracy.micro,
        ExpectedMetric::AverageIncremental => accuracy.average_incremental,
        ExpectedMetric::AverageIncrementalMicro => accuracy.average_incremental_micro,
        ExpectedMetric::AverageFromSecondStage => accuracy.average_from_second_stage,
        ExpectedMetric::AverageFromSecondStageMicro => accuracy.average_from_second_stage_micro,
        ExpectedMetric::Forgetting => accuracy.forgetting,
        ExpectedMetric::ForgettingFromBest => accuracy.forgetting_from_best,
        ExpectedMetric::ForgettingFromBestOfAll => accuracy.forgetting_from_best_of_all,
        ExpectedMetric::ForgettingConsecutive => accuracy.forgetting_consecutive,
        ExpectedMetric::ForgettingConsecutiveOld => accuracy.forgetting_consecutive_old,
        ExpectedMetric::ForgettingConsecutiveOldMicro => accuracy.forgetting_consecutive_old_micro,
        ExpectedMetric::Avg => client_tasks.and_then(|client_tasks| client_tasks.avg),
        ExpectedMetric::Aia => client_tasks.and_then(|client_tasks| client_tasks.aia),
        ExpectedMetric::Fm => client_tasks.and_then(|client_tasks| client_tasks.fm),
        ExpectedMetric::Ft => client_tasks.and_then(|client_tasks| client_tasks.ft),
        ExpectedMetric::Bt => client_tasks.and_then(|client_tasks| client_tasks.bt),
        ExpectedMetric::Tt => client_tasks.and_then(|client_tasks| client_tasks.tt),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published() -> Published {
        let numbers = [(ExpectedMetric::Faa, 82.25), (ExpectedMetric::Ft, 1.5)];
        let source = Some("Table 1".to_string());
        let note = Some("mean of 3 runs".to_string());
        let expected =
            ExpectedSection { source, note, numbers: numbers.into(), ..Default::default() };
        Published::of(&expected).expect("there are numbers")
    }

    #[test]
    fn a_number_is_printed_in_the_unit_of_the_measured_one() {
        let mut published = published();
        published.measure(&Accuracy { faa: Some(0.819), ..Accuracy::default() }, None);
        assert_eq!(
            published.render(),
            "published   faa 82.25 (Table 1), here 81.90\n            \
             ft 1.50 (Table 1), here not measured\n            mean of 3 runs\n"
        );
        published.overrides = vec!["client.epochs=1".to_string()];
        let last = "of the unchanged scenario; this run has --set client.epochs=1\n";
        assert!(published.render().ends_with(last), "{}", published.render());
    }

    #[test]
    fn a_deviation_follows_the_number_that_it_belongs_to() {
        let numbers = [(ExpectedMetric::Micro, 76.54), (ExpectedMetric::Forgetting, 6.61)];
        let deviation = [(ExpectedMetric::Forgetting, 0.73)].into();
        let expected =
            ExpectedSection { numbers: numbers.into(), deviation, ..ExpectedSection::default() };
        let published = Published::of(&expected).unwrap();
        assert_eq!(
            published.render(),
            "published   micro 76.54, here not measured\n            \
             forgetting 6.61 ± 0.73, here not measured\n"
        );
        let json = serde_json::to_value(&published).unwrap();
        assert_eq!(json["numbers"][1]["deviation"], 0.73);
        assert!(json["numbers"][0].get("deviation").is_none(), "{json}");
    }

    /// The second number published is that of the third stage, which is the third of the run.
    #[test]
    fn accuracies_by_stage_stand_above_those_of_their_stages() {
        let expected = ExpectedSection {
            accuracy_by_stage: vec![79.01, 69.32, 59.84],
            first_stage: Some(2),
            ..ExpectedSection::default()
        };
        let mut published = Published::of(&expected).unwrap();
        let seen = vec![Some(0.9), Some(0.75), None];
        published.measure(&Accuracy { seen, ..Accuracy::default() }, None);
        assert_eq!(
            published.render(),
            "published   accuracy_by_stage from stage 2\n            79.01, 69.32, 59.84\n            \
             here 75.00, -, -\n"
        );
        let stages = published.accuracy_by_stage.unwrap();
        assert_eq!(stages.here, [Some(75.0), None, None]);
    }

    #[test]
    fn nothing_published_is_nothing_printed() {
        let source = Some("Table 1".to_string());
        assert_eq!(Published::of(&ExpectedSection { source, ..Default::default() }), None);
    }

    /// Every word of `[expected]` is a key of `summary.json`.
    #[test]
    fn every_word_is_a_key_of_the_summary() {
        let accuracy = serde_json::to_value(Accuracy::default()).unwrap();
        let client_tasks = ["avg", "aia", "fm", "ft", "bt", "tt"];
        for (word, metric, _) in ExpectedMetric::KEYS {
            assert!(accuracy.get(word).is_some() || client_tasks.contains(word), "{word}");
            assert_eq!(serde_json::to_value(metric).unwrap(), *word);
        }
    }
}
