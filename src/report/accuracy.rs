//! Accuracy and forgetting of a run, from its counts of right answers.

use serde::Serialize;

use crate::federation::TaskScore;

/// Accuracies in `0..=1`; `None` where nothing was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Accuracy {
    /// `matrix[s][i]`: on the test set of task `i` after learning task `s`, `i <= s`.
    pub matrix: Vec<Vec<f64>>,
    /// On everything seen after each task (micro).
    pub seen: Vec<f64>,
    /// Final average accuracy: the mean over tasks of the last row (macro).
    pub faa: Option<f64>,
    /// Right answers over all test samples after the last task.
    pub micro: Option<f64>,
    /// Mean over stages of the accuracy on everything seen.
    pub average_incremental: Option<f64>,
    /// `(1/T) sum_i [a_ii - a_Ti]`, as the HGP code counts.
    pub forgetting_learned: Option<f64>,
    /// `(1/(T-1)) sum_{i<T} [max_s a_si - a_Ti]`.
    pub forgetting_max: Option<f64>,
}

impl Accuracy {
    /// From the scores after each task: `scores[s]` holds the tasks `0..=s`.
    pub fn of(scores: &[Vec<TaskScore>]) -> Accuracy {
        let share = |correct: u64, total: u64| correct as f64 / total.max(1) as f64;
        let matrix: Vec<Vec<f64>> = scores
            .iter()
            .map(|row| row.iter().map(|score| share(score.correct, score.total)).collect())
            .collect();
        let seen: Vec<f64> = scores
            .iter()
            .map(|row| {
                let (correct, total) =
                    row.iter().fold((0, 0), |(c, t), score| (c + score.correct, t + score.total));
                share(correct, total)
            })
            .collect();
        let Some(last) = matrix.last() else { return Accuracy::default() };
        let best = |task: usize| {
            matrix.iter().filter_map(|row| row.get(task)).fold(0.0f64, |best, a| best.max(*a))
        };
        let learned: Vec<f64> = (0..last.len()).map(|i| matrix[i][i] - last[i]).collect();
        let max: Vec<f64> = (0..last.len() - 1).map(|i| best(i) - last[i]).collect();
        Accuracy {
            faa: mean(last),
            micro: seen.last().copied(),
            average_incremental: mean(&seen),
            forgetting_learned: mean(&learned),
            forgetting_max: mean(&max),
            matrix,
            seen,
        }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::TaskId;

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
        assert_eq!(accuracy.average_incremental, Some((0.8 + 19.0 / 40.0) / 2.0));
        assert!((accuracy.forgetting_learned.unwrap() + 0.05).abs() < 1e-12); // it rose: negative
        assert_eq!(accuracy.forgetting_max, Some(0.0)); // never negative
        assert_eq!(Accuracy::of(&[]), Accuracy::default());
    }
}
