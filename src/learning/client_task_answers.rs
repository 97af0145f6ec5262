//! Correct predictions for the images of client tasks, which are tasks of a single client.
//!
//! An image may be a sample of several client tasks, and its class has a separate head row in each. A prediction
//! without a given client task is the same for all of them, so it is computed once and counted for each.
//!
//! ```
//! use fedcast::learning::{PredictionTask, Tally};
//! // Client tasks of two rows; the middle one has not begun. The image is of row 1, and of row 4.
//! let mut tally = Tally::new(6);
//! let open = [0..2, 4..6];
//! tally.count_in_client_tasks(&open, &[0.1, 0.3, 9.0, 9.0, 0.2, 0.0], &[1, 4]);
//! assert_eq!((tally.correct[1], tally.correct[4]), (1, 0)); // among all rows begun, row 1 wins
//! assert_eq!((tally.within[&0], tally.within[&4]), (1, 1)); // among the rows of the client task each is right
//! # let _ = PredictionTask::Plainly;
//! ```

use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Tensor};

use super::LearningError;
use super::evaluation::{Tally, argmax, tally_batch};

/// Question that the network answers about a batch of images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PredictionTask {
    /// Best row among all rows seen; the label is correct.
    Plainly,
    /// Best row among these rows of a given client task; the label is correct.
    InClientTask(Range<usize>),
    /// Best row among those of all client tasks begun. For each client task that has the image, its own row of the
    /// class is correct.
    InClientTasks {
        /// Rows of the client tasks begun, ascending. Other rows have never been trained and are not considered.
        open: Arc<[Range<usize>]>,
        /// Rows of the class of each image, ascending.
        rows: Vec<Vec<u32>>,
    },
}

impl PredictionTask {
    /// Counts a batch of scores `(b, rows in scope)`.
    ///
    /// The scope is the rows of the given client task, or all rows seen.
    ///
    /// # Errors
    /// Returns an error if the scores have another shape.
    pub fn tally(
        &self,
        tally: &mut Tally,
        scores: &Tensor,
        labels: &[u32],
    ) -> Result<(), LearningError> {
        let seen = tally.total.len();
        let (rows, images) = match self {
            PredictionTask::Plainly => return tally_batch(tally, scores, labels, 0..seen),
            PredictionTask::InClientTask(own) => (own.clone(), labels.len()),
            PredictionTask::InClientTasks { rows, .. } => (0..seen, rows.len()),
        };
        if scores.dims() != [images, rows.len()] || rows.end > seen || images != labels.len() {
            return Err(LearningError::Shape(format!(
                "scores {:?} for {images} images of client tasks and rows {rows:?} of {seen}",
                scores.shape()
            )));
        }
        let scores = scores.to_dtype(DType::F32)?.to_vec2::<f32>()?;
        match self {
            PredictionTask::Plainly => {}
            PredictionTask::InClientTask(own) => {
                for (scores, label) in scores.iter().zip(labels) {
                    tally.count_of_client_task(own, scores, *label);
                }
            }
            PredictionTask::InClientTasks { open, rows } => {
                for (scores, rows) in scores.iter().zip(rows) {
                    tally.count_in_client_tasks(open, scores, rows);
                }
            }
        }
        Ok(())
    }
}

impl Tally {
    /// Counts a sample of a given client task: `scores` are those of its rows `own`.
    pub fn count_of_client_task(&mut self, own: &Range<usize>, scores: &[f32], label: u32) {
        self.count_from(own.start, scores, label);
        self.count_within(own, scores, label);
    }

    /// Counts an image once for each of its `rows`: among the `open` rows, and among those of the row's own client
    /// task. `scores` are those of all rows seen.
    pub fn count_in_client_tasks(&mut self, open: &[Range<usize>], scores: &[f32], rows: &[u32]) {
        let mut among_open = vec![f32::NEG_INFINITY; scores.len()];
        for client_task in open {
            among_open[client_task.clone()].copy_from_slice(&scores[client_task.clone()]);
        }
        let best = argmax(&among_open);
        for row in rows {
            self.answer(best, *row);
            let client_task = open.partition_point(|client_task| client_task.end <= *row as usize);
            if let Some(own) = open.get(client_task) {
                self.count_within(own, &scores[own.clone()], *row);
            }
        }
    }

    fn count_within(&mut self, own: &Range<usize>, scores: &[f32], label: u32) {
        let right = argmax(scores).is_some_and(|best| own.start + best == label as usize);
        *self.within.entry(own.start as u32).or_default() += u64::from(right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::distributions::{below, normal};
    use crate::numerics::streams::{Domain, StreamKey};
    use candle_core::Device;

    /// Check 9 of the protocol: a given client task never makes a right answer wrong, and rows of client tasks that
    /// no client trains are no answers.
    #[test]
    fn answers_right_among_all_are_right_within_a_client_task() -> Result<(), LearningError> {
        let mut rng = StreamKey::new(1, Domain::Method).rng();
        let open: Arc<[Range<usize>]> = [0..3, 6..9].into();
        let mut tally = Tally::new(9);
        for own in [0..3, 6..9usize] {
            let labels: Vec<u32> =
                (0..200).map(|_| own.start as u32 + below(&mut rng, 3) as u32).collect();
            let scores: Vec<f32> = labels
                .iter()
                .flat_map(|label| {
                    let mean = |row: u32| if row == *label { 1.5 } else { 0.0 };
                    (0..9).map(|row| (normal(&mut rng, mean(row), 1.0)) as f32).collect::<Vec<_>>()
                })
                .collect();
            let all = Tensor::from_vec(scores, (200, 9), &Device::Cpu)?;
            let rows = labels.iter().map(|label| vec![*label]).collect();
            let asked = PredictionTask::InClientTasks { open: Arc::clone(&open), rows };
            asked.tally(&mut tally, &all, &labels)?;
            let right: u64 = tally.correct[own.clone()].iter().sum();
            let within = tally.within[&(own.start as u32)];
            assert!(right > 0 && within > right && within < 200, "{within} and {right}");

            // With the client task given, all answers are within it.
            let mut known_tally = Tally::new(9);
            let scores = all.narrow(1, own.start, own.len())?;
            PredictionTask::InClientTask(own.clone()).tally(&mut known_tally, &scores, &labels)?;
            assert_eq!(known_tally.within[&(own.start as u32)], within);
            assert_eq!(known_tally.correct.iter().sum::<u64>(), within);
        }
        assert_eq!(tally.predicted[3..6], [0; 3]);
        Ok(())
    }

    #[test]
    fn an_image_counts_once_for_every_client_task_that_has_it() {
        let open = [0..2, 4..6, 6..8];
        let scores = [0.0, 0.5, 9.0, 9.0, 0.7, 0.1, f32::NAN, 0.0];
        let mut tally = Tally::new(8);
        tally.count_in_client_tasks(&open[..2], &scores, &[1, 4]);
        assert_eq!(tally.total, [0, 1, 0, 0, 1, 0, 0, 0]);
        assert_eq!(tally.predicted, [0, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!((tally.correct[1], tally.correct[4]), (0, 1));
        assert_eq!(tally.within, [(0, 1), (4, 1)].into());
        // A client task that answers with no number spoils the answers of all, and not what others say within.
        tally.count_in_client_tasks(&open, &scores, &[1, 6]);
        assert_eq!(tally.not_a_number, 2);
        assert_eq!(tally.within, [(0, 2), (4, 1), (6, 0)].into());
    }

    #[test]
    fn scores_of_another_shape_are_refused() -> Result<(), LearningError> {
        let scores = Tensor::zeros((1, 3), DType::F32, &Device::Cpu)?;
        let refused = |asked: PredictionTask, labels: &[u32]| {
            asked.tally(&mut Tally::new(9), &scores, labels).expect_err("misfits").to_string()
        };
        assert!(refused(PredictionTask::InClientTask(0..2), &[0]).contains("rows 0..2 of 9"));
        let open = [0..3, 6..9].into();
        let every = PredictionTask::InClientTasks { open, rows: vec![vec![0]] };
        assert!(refused(every, &[0]).contains("rows 0..9 of 9"));
        PredictionTask::InClientTask(6..9).tally(&mut Tally::new(9), &scores, &[7])
    }
}
