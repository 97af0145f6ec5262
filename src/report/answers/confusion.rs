//! `confusion.csv`: true and predicted classes after every task; written with `record.confusion`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AnswerClasses, AnswerRow};
use crate::experiment::names as files;
use crate::federation::SampleAnswer;
use crate::report::column::{AFTER_TASK, CLASS_NAME, Columns};

#[derive(Clone, Columns, Serialize, Deserialize)]
pub(in crate::report) struct ConfusionRow {
    #[column(as_in = AFTER_TASK)]
    after_task: u32,
    /// True class, in the data set's numbers.
    class: u32,
    /// Class that the model predicted.
    predicted: u32,
    /// Test samples of that class with that prediction, at least 1.
    samples: u64,
    // Versions that recorded no names wrote rows without these.
    #[column(as_in = CLASS_NAME)]
    #[serde(default)]
    name: String,
    /// Name of the class that the model predicted.
    #[serde(default)]
    predicted_name: String,
}

impl AnswerRow for ConfusionRow {
    const FILE: &'static str = files::CONFUSION;

    fn after_task(&self) -> u32 {
        self.after_task
    }

    /// Returns a row for every pair of true and predicted class that occurred, in the order of head rows.
    fn rows(after_task: u32, answers: &[SampleAnswer], classes: &AnswerClasses) -> Vec<Self> {
        let mut counts: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for SampleAnswer { answer, .. } in answers {
            // A prediction that is no number has no class.
            let pair = answer.predicted.map(|predicted| (answer.label, predicted));
            pair.into_iter().for_each(|pair| *counts.entry(pair).or_default() += 1);
        }
        let row = |((label, predicted), samples)| {
            let ((class, name), (predicted, predicted_name)) =
                (classes.of(label), classes.of(predicted));
            ConfusionRow { after_task, class, predicted, samples, name, predicted_name }
        };
        counts.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ClassNames;
    use crate::learning::RowAnswer;

    #[test]
    fn pairs_are_counted_by_truth_and_answer() {
        let answers = [(1, Some(2)), (1, Some(2)), (1, Some(1)), (2, Some(1)), (2, None)];
        let answers = answers.map(|(label, predicted)| SampleAnswer {
            sample: 0,
            answer: RowAnswer { label, predicted },
        });
        let classes = AnswerClasses { by_row: vec![7, 5, 9], names: ClassNames::default() };
        let rows = ConfusionRow::rows(3, &answers, &classes);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.after_task, row.class, row.predicted, row.samples))
            .collect();
        assert_eq!(rows, [(3, 5, 5, 1), (3, 5, 9, 2), (3, 9, 5, 1)]);
    }
}
