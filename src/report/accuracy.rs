//! Accuracy and forgetting of a run, from its counts of correct predictions.
//!
//! A task without test samples has no accuracy and is left out of every mean.

use serde::Serialize;

use crate::document::Document;
use crate::federation::{SinkError, TaskScore};
use crate::learning::{AccuracyMatrix, evaluation};

/// Accuracies in `0..=1`; `None` if nothing was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Document)]
#[document(unit = "share")]
pub struct Accuracy {
    /// Accuracy matrix: row s, column i is the accuracy on task i after task s; null without test samples.
    pub matrix: Vec<Vec<Option<f64>>>,
    /// Accuracy on all classes seen, after each task (micro).
    pub seen: Vec<Option<f64>>,
    /// Tasks without test samples, from 1; they are left out of means, and a mean over nothing is null.
    #[document(unit = "")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub untested_tasks: Vec<u32>,
    /// Final average accuracy: mean over tasks of the last row (macro).
    pub faa: Option<f64>,
    /// Fraction of correct predictions over all test samples after the last task.
    pub micro: Option<f64>,
    /// Mean over stages of the macro accuracy.
    pub average_incremental: Option<f64>,
    /// Mean over stages of the micro accuracy.
    pub average_incremental_micro: Option<f64>,
    /// Mean over stages of the macro accuracy without the first stage.
    pub average_from_second_stage: Option<f64>,
    /// Mean over stages of the micro accuracy without the first stage, as in FedHAF's tables.
    pub average_from_second_stage_micro: Option<f64>,
    /// `(1/T) sum over i of a_ii - a_Ti`, as the HGP code computes it; negative where accuracy rose.
    pub forgetting: Option<f64>,
    /// `(1/(T-1)) sum over i < T of max_s a_si - a_Ti`, as the STSA code computes it; null after one task.
    pub forgetting_from_best: Option<f64>,
    /// `(1/T) sum over i of max_s a_si - a_Ti`, as FedHAF defines it.
    pub forgetting_from_best_of_all: Option<f64>,
    /// Mean over stages of the drop of each task since the stage before, as in CODA-Prompt's paper.
    ///
    /// `(1/(T-1)) sum_{s>1} (1/s) sum_{i<s} [a_{s-1,i} - a_si]`
    pub forgetting_consecutive: Option<f64>,
    /// Mean over stages of the mean drop of old tasks since the stage before, as in CODA-Prompt's code.
    ///
    /// `1/(s-1)` in place of `1/s`.
    pub forgetting_consecutive_old: Option<f64>,
    /// Mean over stages of the drop on all test samples of old tasks together (micro), HePCo's F_N.
    ///
    /// As HePCo's release computes it.
    pub forgetting_consecutive_old_micro: Option<f64>,
    /// `(1/(T-1)) sum over i < T of a_Ti - a_ii` (Lopez-Paz and Ranzato 2017); null after one task.
    pub backward_transfer: Option<f64>,
}

impl Accuracy {
    /// Computes the measures from the scores after each task: `scores[s]` holds the tasks `0..=s`.
    pub fn of(scores: &[Vec<TaskScore>]) -> Accuracy {
        let Some(last) = scores.last() else { return Accuracy::default() };
        let share = |score: &TaskScore| evaluation::accuracy(score.correct, score.total);
        let matrix: Vec<Vec<Option<f64>>> =
            scores.iter().map(|row| row.iter().map(share).collect()).collect();
        let untested = last.iter().filter(|score| score.total == 0);
        let mut stages = AccuracyMatrix::new(last.iter().map(|score| score.total).collect());
        matrix.iter().for_each(|row| stages.push_stage(row));
        Accuracy {
            untested_tasks: untested.map(|score| u32::from(score.task.0) + 1).collect(),
            seen: (0..stages.tasks()).map(|after| stages.micro(after)).collect(),
            faa: stages.faa(),
            micro: stages.tasks().checked_sub(1).and_then(|last| stages.micro(last)),
            average_incremental: stages.average_incremental_accuracy(),
            average_incremental_micro: stages.average_incremental_accuracy_micro(),
            average_from_second_stage: stages.average_from_second_stage(),
            average_from_second_stage_micro: stages.average_from_second_stage_micro(),
            forgetting: stages.forgetting(),
            forgetting_from_best: stages.forgetting_from_best_ever(),
            forgetting_from_best_of_all: stages.forgetting_from_best_of_all(),
            forgetting_consecutive: stages.forgetting_consecutive(),
            forgetting_consecutive_old: stages.forgetting_consecutive_old(),
            forgetting_consecutive_old_micro: stages.forgetting_consecutive_old_micro(),
            backward_transfer: stages.backward_transfer(),
            matrix,
        }
    }
}

/// Scores after each task, as recorded in a journal.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskScores(Vec<Vec<TaskScore>>);

impl TaskScores {
    /// Adds the scores after the next task.
    ///
    /// # Errors
    /// Fails if there are fewer tasks than were learned: the journal was written by hand.
    pub fn push(&mut self, tasks: &[TaskScore]) -> Result<(), SinkError> {
        let expected = self.0.len() + 1;
        if tasks.len() < expected {
            let tested = tasks.len();
            let why = format!("the journal has scores of {tested} tasks, expected {expected}");
            return Err(SinkError::Stop(why));
        }
        self.0.push(tasks.to_vec());
        Ok(())
    }

    /// Returns the measures of these scores.
    pub fn accuracy(&self) -> Accuracy {
        Accuracy::of(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::TaskId;

    #[test]
    fn scores_of_fewer_tasks_than_were_trained_are_refused() {
        let rows = scores(&[&[(1, 2)], &[(1, 2), (2, 4)]]);
        let mut task_scores = TaskScores::default();
        rows.iter().for_each(|row| task_scores.push(row).unwrap());
        assert!(
            task_scores.push(&rows[1]).unwrap_err().to_string().contains("2 tasks, expected 3")
        );
        assert_eq!(task_scores.accuracy(), Accuracy::of(&rows));
    }

    fn scores(rows: &[&[(u64, u64)]]) -> Vec<Vec<TaskScore>> {
        let score = |(task, (correct, total)): (usize, &(u64, u64))| TaskScore {
            task: TaskId(task as u16),
            correct: *correct,
            total: *total,
        };
        rows.iter().map(|row| row.iter().enumerate().map(score).collect()).collect()
    }

    #[test]
    fn macro_and_micro_differ_where_tasks_do_and_forgetting_counts_both_ways() {
        let accuracy = Accuracy::of(&scores(&[&[(8, 10)], &[(9, 10), (10, 30)]]));
        assert_eq!(accuracy.faa, Some((0.9 + 10.0 / 30.0) / 2.0));
        assert_eq!(accuracy.micro, Some(19.0 / 40.0));
        assert_eq!(accuracy.average_incremental_micro, Some((0.8 + 19.0 / 40.0) / 2.0));
        assert_eq!(accuracy.average_from_second_stage_micro, Some(19.0 / 40.0));
        assert_eq!(accuracy.average_from_second_stage, accuracy.faa);
        assert!((accuracy.forgetting.unwrap() + 0.05).abs() < 1e-12); // it rose: negative
        assert!((accuracy.backward_transfer.unwrap() - 0.1).abs() < 1e-12); // over the old task alone
        assert_eq!(accuracy.forgetting_from_best, Some(0.0)); // never negative
        assert!((accuracy.forgetting_consecutive.unwrap() + 0.05).abs() < 1e-12);
        // Two tasks: half of the drop, or all of it.
        assert!((accuracy.forgetting_consecutive_old.unwrap() + 0.1).abs() < 1e-12);
        assert_eq!(Accuracy::of(&[]), Accuracy::default());
        // From 9 to 6 of 10: over one old task, or over both tasks.
        let fell = Accuracy::of(&scores(&[&[(9, 10)], &[(6, 10), (10, 30)]]));
        assert!((fell.forgetting_from_best.unwrap() - 0.3).abs() < 1e-12);
        assert!((fell.forgetting_from_best_of_all.unwrap() - 0.15).abs() < 1e-12);
        let one = Accuracy::of(&scores(&[&[(8, 10)]]));
        assert_eq!((one.average_from_second_stage, one.forgetting_from_best), (None, None));
        assert_eq!((one.faa, one.forgetting), (Some(0.8), Some(0.0)));
        assert_eq!(one.backward_transfer, None);
    }

    /// Uses a play whose third character is not in its tested part.
    #[test]
    fn a_task_without_test_samples_has_no_accuracy_and_is_in_no_mean() {
        let rows: [&[(u64, u64)]; 3] = [&[(4, 4)], &[(0, 4), (6, 6)], &[(0, 4), (6, 6), (0, 0)]];
        let accuracy = Accuracy::of(&scores(&rows));
        assert_eq!(accuracy.matrix[2], [Some(0.0), Some(1.0), None]);
        assert_eq!(accuracy.untested_tasks, [3]);
        assert_eq!((accuracy.faa, accuracy.micro), (Some(0.5), Some(0.6)));
        assert_eq!(
            (accuracy.average_incremental, accuracy.forgetting),
            (Some(2.0 / 3.0), Some(0.5))
        );
        let json = serde_json::to_value(&accuracy).unwrap();
        assert_eq!(json["matrix"][2], serde_json::json!([0.0, 1.0, null]));
        // Nothing at all is tested.
        let none = Accuracy::of(&scores(&[&[(0, 0)]]));
        assert_eq!((none.faa, none.micro, none.forgetting), (None, None, None));
        assert_eq!((&*none.seen, &*none.untested_tasks), (&[None][..], &[1][..]));
    }

    /// Three tasks of 10, 30 and 20 samples, by hand: the first goes from 8 to 4 to 6, the second from 24 to 9.
    #[test]
    fn consecutive_drops_by_samples_of_old_tasks() {
        let rows: [&[(u64, u64)]; 3] =
            [&[(8, 10)], &[(4, 10), (24, 30)], &[(6, 10), (9, 30), (20, 20)]];
        let accuracy = Accuracy::of(&scores(&rows));
        // 8 to 4 of 10 are 0.4; 28 to 15 of 40 are 0.325. Tasks alike it would be 0.4 and (-0.2 + 0.5)/2.
        let by_samples = accuracy.forgetting_consecutive_old_micro.unwrap();
        assert!((by_samples - (0.4 + 0.325) / 2.0).abs() < 1e-12, "{by_samples}");
        let alike = accuracy.forgetting_consecutive_old.unwrap();
        assert!((alike - (0.4 + 0.15) / 2.0).abs() < 1e-12, "{alike}");
    }

    /// Three tasks of ten samples, by hand: the first falls from 9 to 7 to 6, the second from 8 to 5.
    #[test]
    fn consecutive_drops_of_three_tasks() {
        let rows: [&[(u64, u64)]; 3] =
            [&[(9, 10)], &[(7, 10), (8, 10)], &[(6, 10), (5, 10), (4, 10)]];
        let accuracy = Accuracy::of(&scores(&rows));
        let near = |found: Option<f64>, wanted: f64| {
            assert!((found.unwrap() - wanted).abs() < 1e-12, "{found:?} is not {wanted}");
        };
        // After the second task 0.2 of two, or of one old; after the third 0.1 and 0.3 of three, or of two old.
        near(accuracy.forgetting_consecutive, (0.2 / 2.0 + 0.4 / 3.0) / 2.0);
        near(accuracy.forgetting_consecutive_old, (0.2 / 1.0 + 0.4 / 2.0) / 2.0);
        // Final against when they were learned, over all three; against their best over two old ones, or all three.
        near(accuracy.forgetting, 0.2);
        near(accuracy.backward_transfer, -0.3);
        near(accuracy.forgetting_from_best, 0.3);
        near(accuracy.forgetting_from_best_of_all, 0.2);
    }
}
