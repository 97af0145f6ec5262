//! `predictions.csv`: predicted class of every test sample after every task; written with `record.predictions`.

use serde::{Deserialize, Serialize};

use super::{AnswerClasses, AnswerRow};
use crate::experiment::names as files;
use crate::federation::SampleAnswer;
use crate::report::column::{AFTER_TASK, CLASS_NAME, Columns};

#[derive(Clone, Columns, Serialize, Deserialize)]
pub(in crate::report) struct PredictionRow {
    #[column(as_in = AFTER_TASK)]
    after_task: u32,
    /// Number of the sample in the tested part of the data set, from 0, without `data.subset`.
    sample: u32,
    /// True class, in the data set's numbers.
    class: u32,
    /// Class that the model predicted; empty if a score was no number.
    predicted: Option<u32>,
    #[column(as_in = CLASS_NAME)]
    name: String,
    /// Name of the class that the model predicted.
    predicted_name: String,
}

impl AnswerRow for PredictionRow {
    const FILE: &'static str = files::PREDICTIONS;

    fn after_task(&self) -> u32 {
        self.after_task
    }

    /// Returns a row for every sample, by its number.
    fn rows(after_task: u32, answers: &[SampleAnswer], classes: &AnswerClasses) -> Vec<Self> {
        let row = |SampleAnswer { sample, answer }: &SampleAnswer| {
            let (class, name) = classes.of(answer.label);
            let (predicted, predicted_name) = answer.predicted.map(|row| classes.of(row)).unzip();
            let predicted_name = predicted_name.unwrap_or_default();
            PredictionRow { after_task, sample: *sample, class, predicted, name, predicted_name }
        };
        let mut rows: Vec<PredictionRow> = answers.iter().map(row).collect();
        rows.sort_by_key(|row| row.sample);
        rows
    }
}
