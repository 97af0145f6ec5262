//! Accuracy of a classifier, counted in fixed blocks of samples.
//!
//! Blocks depend only on the number of samples and the block size, and counts are integers, so any worker
//! may take any block and the merged [`Tally`] is the same.
//!
//! ```
//! use fedcast::learning::evaluation::{blocks, Tally};
//! assert_eq!(blocks(10, 4).collect::<Vec<_>>(), [0..4, 4..8, 8..10]);
//! let mut tally = Tally::new(3);
//! tally.count(&[0.1, 0.7, 0.7], 1); // a tie goes to the lower row
//! tally.count(&[0.9, 0.0, 0.0], 2);
//! assert_eq!(tally.accuracy(0..3), Some(0.5));
//! assert_eq!(tally.accuracy(0..1), None); // nothing of class 0 was asked
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use candle_core::{DType, Tensor};
use serde::{Deserialize, Serialize};

use super::LearningError;
use crate::data::{Batch, Loader};

/// Returns the ranges `0..size`, `size..2 size`, ... that cover `0..len`.
pub fn blocks(len: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    let size = size.max(1);
    (0..len.div_ceil(size)).map(move |k| k * size..((k + 1) * size).min(len))
}

/// Counts of predictions by class; rows are head rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Right predictions per true class.
    pub correct: Vec<u64>,
    /// Samples per true class.
    pub total: Vec<u64>,
    /// Predictions per predicted class: the response histogram.
    pub predicted: Vec<u64>,
    /// Samples with a NaN among their scores; they count as wrong and as no prediction.
    pub not_a_number: u64,
    /// Correct predictions among the rows of a sample's own client task (task-incremental). They are keyed by the first
    /// of these rows; empty if classes have no client tasks.
    pub within: BTreeMap<u32, u64>,
    /// Answers in the order in which they were counted, if they are kept.
    pub answers: Option<Vec<RowAnswer>>,
}

/// Answer to a sample, by head rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowAnswer {
    /// Row of the true class.
    pub label: u32,
    /// Predicted row; `None` if a score is NaN.
    pub predicted: Option<u32>,
}

impl Tally {
    /// Returns an empty tally over head rows `0..classes`.
    pub fn new(classes: usize) -> Tally {
        let zeros = vec![0; classes];
        let within = BTreeMap::new();
        let (correct, total) = (zeros.clone(), zeros.clone());
        Tally { correct, total, predicted: zeros, not_a_number: 0, within, answers: None }
    }

    /// Returns an empty tally that also keeps the answer to each sample.
    pub fn with_answers(classes: usize) -> Tally {
        Tally { answers: Some(Vec::new()), ..Tally::new(classes) }
    }

    /// Counts one sample: `scores` are those of rows `0..scores.len()`.
    pub fn count(&mut self, scores: &[f32], label: u32) {
        self.count_from(0, scores, label);
    }

    /// Counts one sample whose `scores` belong to the rows from `first` on.
    pub fn count_from(&mut self, first: usize, scores: &[f32], label: u32) {
        self.answer(argmax(scores).map(|best| first + best), label);
    }

    /// Counts one sample for which this row was predicted; `None` stands for NaN scores.
    pub(super) fn answer(&mut self, row: Option<usize>, label: u32) {
        self.total[label as usize] += 1;
        if let Some(answers) = &mut self.answers {
            answers.push(RowAnswer { label, predicted: row.map(|row| row as u32) });
        }
        match row {
            Some(row) => {
                self.predicted[row] += 1;
                self.correct[label as usize] += u64::from(row == label as usize);
            }
            None => self.not_a_number += 1,
        }
    }

    /// Adds the counts of another part of the samples, over the same classes; its answers follow.
    pub fn merge(&mut self, other: &Tally) {
        let add = |to: &mut Vec<u64>, from: &[u64]| {
            to.resize(to.len().max(from.len()), 0);
            to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        };
        add(&mut self.correct, &other.correct);
        add(&mut self.total, &other.total);
        add(&mut self.predicted, &other.predicted);
        self.not_a_number += other.not_a_number;
        for (row, count) in &other.within {
            *self.within.entry(*row).or_default() += count;
        }
        if let Some(answers) = &other.answers {
            self.answers.get_or_insert_default().extend(answers);
        }
    }

    /// Returns the fraction of correct predictions among samples whose class is in `rows`. `None` if there are no such
    /// samples.
    pub fn accuracy(&self, rows: Range<usize>) -> Option<f64> {
        let correct: u64 = self.correct[rows.clone()].iter().sum();
        accuracy(correct, self.total[rows].iter().sum())
    }

    /// Returns the number of samples counted.
    pub fn samples(&self) -> u64 {
        self.total.iter().sum()
    }
}

/// Returns the fraction of correct predictions, in `0..=1`; `None` if there are no samples.
///
/// ```
/// use fedcast::learning::evaluation::accuracy;
/// assert_eq!((accuracy(3, 4), accuracy(0, 4), accuracy(0, 0)), (Some(0.75), Some(0.0), None));
/// ```
pub fn accuracy(correct: u64, total: u64) -> Option<f64> {
    (total > 0).then(|| correct as f64 / total as f64)
}

/// Returns the index of the largest score, the lowest of equals. `None` if a score is NaN or there is none.
pub fn argmax(scores: &[f32]) -> Option<usize> {
    if scores.iter().any(|s| s.is_nan()) {
        return None;
    }
    let best = |best: Option<usize>, (i, &s): (usize, &f32)| match best {
        Some(b) if scores[b] >= s => best,
        _ => Some(i),
    };
    scores.iter().enumerate().fold(None, best)
}

/// Scores the whole shard of `loader` in its order, `block` samples at a time.
///
/// `scorer` gives `(b, rows.len())` scores for the head rows `rows`; `classes` is the number of
/// head rows that labels can have.
///
/// # Errors
/// Returns an error if the loader or the scorer fails, or scores have another shape.
pub fn evaluate<E>(
    loader: &Loader,
    block: usize,
    classes: usize,
    rows: Range<usize>,
    mut scorer: impl FnMut(&Batch) -> Result<Tensor, E>,
) -> Result<Tally, E>
where
    E: From<LearningError>,
{
    let mut tally = Tally::new(classes);
    for batch in loader.in_order(block) {
        let batch = batch.map_err(LearningError::from)?;
        let scores = scorer(&batch)?;
        tally_batch(&mut tally, &scores, batch.labels(), rows.clone())?;
    }
    Ok(tally)
}

/// Counts a batch of scores `(b, rows.len())`.
///
/// # Errors
/// Returns an error if the scores have another shape.
pub fn tally_batch(
    tally: &mut Tally,
    scores: &Tensor,
    labels: &[u32],
    rows: Range<usize>,
) -> Result<(), LearningError> {
    if scores.dims() != [labels.len(), rows.len()] || rows.end > tally.predicted.len() {
        return Err(LearningError::Shape(format!(
            "scores {:?} for {} samples and rows {rows:?} of {}",
            scores.shape(),
            labels.len(),
            tally.predicted.len()
        )));
    }
    let scores = scores.to_dtype(DType::F32).and_then(|s| s.to_vec2::<f32>())?;
    for (row, &label) in scores.iter().zip(labels) {
        tally.count_from(rows.start, row, label);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassPermutation, TaskSequence, TaskSizes, Transform, digits};
    use candle_core::Device;
    use std::sync::Arc;

    #[test]
    fn ties_go_to_the_lowest_row_and_nan_is_never_right() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0]), Some(1));
        assert_eq!(argmax(&[f32::NEG_INFINITY; 2]), Some(0));
        assert_eq!(argmax(&[0.0, -0.0]), Some(0));
        assert_eq!(argmax(&[0.0, f32::NAN]), None);
        assert_eq!(argmax(&[]), None);
        let mut tally = Tally::new(2);
        tally.count(&[f32::NAN, 0.0], 0);
        assert_eq!((tally.accuracy(0..2), tally.not_a_number), (Some(0.0), 1));
        assert_eq!(tally.accuracy(1..2), None, "of class 1 nothing was asked");
        assert_eq!(tally.predicted, [0, 0]);
    }

    #[test]
    fn blocks_cover_everything_once() {
        assert_eq!(blocks(7, 3).collect::<Vec<_>>(), [0..3, 3..6, 6..7]);
        assert_eq!(blocks(6, 3).collect::<Vec<_>>(), [0..3, 3..6]);
        assert_eq!(blocks(2, 0).collect::<Vec<_>>(), [0..1, 1..2]);
        assert_eq!(blocks(0, 3).count(), 0);
    }

    #[test]
    fn answers_are_kept_in_order_with_those_that_are_no_number() {
        let mut tally = Tally::with_answers(3);
        for (row, label) in [(Some(2), 1), (None, 1), (Some(1), 1)] {
            tally.answer(row, label);
        }
        let answer = |label, predicted| RowAnswer { label, predicted };
        let answers = vec![answer(1, Some(2)), answer(1, None), answer(1, Some(1))];
        assert_eq!((tally.answers, tally.correct), (Some(answers), vec![0, 1, 0]));
    }

    /// Two parts that each saw something the other did not.
    #[test]
    fn a_merged_tally_has_what_both_counted() {
        let part = |rows: &[(Option<usize>, u32)], within: u64| {
            let mut part = Tally::with_answers(3);
            rows.iter().for_each(|(row, label)| part.answer(*row, *label));
            part.within.insert(1, within);
            part
        };
        let mut merged = part(&[(Some(1), 1), (None, 0), (None, 1)], 4);
        merged.merge(&part(&[(Some(1), 1), (Some(2), 1), (None, 2)], 3));
        assert_eq!((merged.not_a_number, merged.samples()), (3, 6));
        assert_eq!((merged.correct, merged.predicted), (vec![0, 2, 0], vec![0, 2, 1]));
        assert_eq!(merged.within.into_iter().collect::<Vec<_>>(), [(1, 7)]);
        let answer = |label, predicted| RowAnswer { label, predicted };
        let first = [answer(1, Some(1)), answer(0, None), answer(1, None)];
        let second = [answer(1, Some(1)), answer(1, Some(2)), answer(2, None)];
        assert_eq!(merged.answers, Some([first, second].concat()));
    }

    fn digits_loader(range: Range<u32>) -> Loader {
        let digits = digits::embedded().unwrap();
        let task_sequence =
            TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(5)).unwrap();
        let transform = Arc::new(Transform::default());
        Loader::new(digits.test, range.collect(), Arc::new(task_sequence), transform)
    }

    /// Scores by the first pixels: any deterministic function of the sample will do.
    fn scorer(batch: &Batch) -> Result<Tensor, LearningError> {
        let pixels = batch.pixels(&Device::Cpu)?.flatten_from(1)?;
        Ok(pixels.narrow(1, 18, 10)?)
    }

    #[test]
    fn parts_merge_to_the_whole_whatever_their_size() {
        let whole = evaluate(&digits_loader(0..100), 7, 10, 0..10, scorer).unwrap();
        let mut merged = Tally::new(10);
        for part in [60..100, 0..13, 13..60] {
            merged.merge(&evaluate(&digits_loader(part), 32, 10, 0..10, scorer).unwrap());
        }
        assert_eq!(whole, merged);
        assert_eq!(whole.samples(), 100);
        assert_eq!(whole.predicted.iter().sum::<u64>(), 100);
    }

    #[test]
    fn a_constant_predictor_is_right_on_the_share_of_its_class() {
        let loader = digits_loader(0..100);
        let constant = |batch: &Batch| -> Result<Tensor, LearningError> {
            let mut scores = vec![0f32; batch.len() * 4];
            scores.iter_mut().skip(1).step_by(4).for_each(|s| *s = 1.0);
            Ok(Tensor::from_vec(scores, (batch.len(), 4), &Device::Cpu)?)
        };
        // Rows 2..6 are in scope, so the second column is row 3.
        let tally = evaluate(&loader, 9, 10, 2..6, constant).unwrap();
        let threes = loader.labels().iter().filter(|&&l| l == 3).count() as f64;
        assert_eq!(tally.accuracy(0..10), Some(threes / 100.0));
        assert_eq!(tally.predicted[3], 100);
        let error = evaluate(&loader, 9, 10, 2..7, constant).unwrap_err();
        assert!(error.to_string().contains("rows 2..7"), "{error}");
    }
}
