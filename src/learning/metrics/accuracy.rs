//! The accuracy matrix and everything that is read from it.
//!
//! Definitions follow the HGP benchmark (`protocol-hgp.md`, section 6) and, for forgetting, also Chaudhry
//! et al. (2018), the STSA release and the prompt line of CODA-Prompt and HePCo. With uneven test sets macro and
//! micro differ: macro averages tasks, micro averages samples.
//!
//! ```
//! use fedcast::learning::AccuracyMatrix;
//! let mut a = AccuracyMatrix::new(vec![100, 300]);
//! a.push_stage(&[90.0]);
//! a.push_stage(&[80.0, 60.0]); // after task 2: task 1 fell from 90 to 80
//! assert_eq!(a.faa(), 70.0);
//! assert_eq!(a.micro(1), 65.0);
//! assert_eq!(a.average_incremental_accuracy(), 80.0);
//! assert_eq!((a.forgetting(), a.forgetting_from_best()), (5.0, 10.0));
//! ```

/// `A[i][j]` in percent, one column per finished task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccuracyMatrix {
    /// Test samples per task.
    test_counts: Vec<u64>,
    /// `stages[j][i]`: accuracy on task `i` after task `j`; at least `j + 1` entries.
    stages: Vec<Vec<f64>>,
}

impl AccuracyMatrix {
    /// An empty matrix over tasks with these numbers of test samples.
    pub fn new(test_counts: Vec<u64>) -> AccuracyMatrix {
        AccuracyMatrix { test_counts, stages: Vec::new() }
    }

    /// Adds the accuracies after the next task: of the tasks `0..=j`, or of more where later
    /// tasks were measured before their training. Panics when there are fewer.
    pub fn push_stage(&mut self, accuracies: &[f64]) {
        assert!(accuracies.len() > self.stages.len(), "every seen task needs an accuracy");
        self.stages.push(accuracies.to_vec());
    }

    /// Finished tasks.
    pub fn tasks(&self) -> usize {
        self.stages.len()
    }

    /// `A[task][after]`, where measured.
    pub fn at(&self, task: usize, after: usize) -> Option<f64> {
        self.stages.get(after)?.get(task).copied()
    }

    /// Accuracies on the tasks seen after task `after`.
    pub fn stage(&self, after: usize) -> &[f64] {
        &self.stages[after][..=after]
    }

    /// Mean over the tasks seen after task `after`.
    pub fn r#macro(&self, after: usize) -> f64 {
        mean(self.stage(after).iter().copied())
    }

    /// Mean over the test samples seen after task `after`.
    pub fn micro(&self, after: usize) -> f64 {
        self.micro_of_first(after + 1, after)
    }

    /// Mean over the test samples of the first `tasks` tasks after task `after`.
    fn micro_of_first(&self, tasks: usize, after: usize) -> f64 {
        let weights = &self.test_counts[..tasks];
        let total: u64 = weights.iter().sum();
        let sum: f64 = self.stages[after].iter().zip(weights).map(|(a, &n)| a * n as f64).sum();
        if total == 0 { 0.0 } else { sum / total as f64 }
    }

    /// Final average accuracy (FAA): the macro accuracy after the last task; 0 before the first.
    pub fn faa(&self) -> f64 {
        self.last().map_or(0.0, |last| self.r#macro(last))
    }

    /// Average incremental accuracy: mean of the macro accuracies after each task.
    pub fn average_incremental_accuracy(&self) -> f64 {
        mean((0..self.tasks()).map(|j| self.r#macro(j)))
    }

    /// The same of the micro accuracies (STSA's A-bar).
    pub fn average_incremental_accuracy_micro(&self) -> f64 {
        mean((0..self.tasks()).map(|j| self.micro(j)))
    }

    /// [`average_incremental_accuracy`](AccuracyMatrix::average_incremental_accuracy) without the first stage, after
    /// which nothing can have been forgotten; 0 where there is no other.
    pub fn average_from_second_stage(&self) -> f64 {
        mean((1..self.tasks()).map(|j| self.r#macro(j)))
    }

    /// The same of the micro accuracies. FedHAF's tables print nine values of ten tasks, of which the first already
    /// depends on losses that the first task has not: so they are read as beginning after the second.
    pub fn average_from_second_stage_micro(&self) -> f64 {
        mean((1..self.tasks()).map(|j| self.micro(j)))
    }

    /// `A_i^i - A_i^T` of every task; the last entry is 0.
    pub fn drops(&self) -> Vec<f64> {
        let Some(last) = self.last() else { return Vec::new() };
        (0..=last).map(|i| self.stages[i][i] - self.stages[last][i]).collect()
    }

    /// Forgetting as the HGP code has it: mean of [`drops`](AccuracyMatrix::drops) over all `T` tasks.
    pub fn forgetting(&self) -> f64 {
        mean(self.drops())
    }

    /// Classical forgetting (Chaudhry et al. 2018): best accuracy before the last stage minus the
    /// final one, mean over the `T - 1` old tasks. Negative where a task improved at the end.
    pub fn forgetting_from_best(&self) -> f64 {
        self.last().map_or(0.0, |last| self.forgetting_from_best_after(last))
    }

    /// [`forgetting_from_best`](AccuracyMatrix::forgetting_from_best) after task `after`; 0 after the first.
    pub fn forgetting_from_best_after(&self, after: usize) -> f64 {
        mean((0..after).map(|i| self.best(i, after) - self.stages[after][i]))
    }

    /// The STSA release's form: the best over **all** stages, the last included, so never negative;
    /// mean over the `T - 1` old tasks.
    pub fn forgetting_from_best_ever(&self) -> f64 {
        let Some(last) = self.last() else { return 0.0 };
        mean((0..last).map(|i| self.best(i, last + 1) - self.stages[last][i]))
    }

    /// The same over all `T` tasks, of which the last has nothing to forget (FedHAF, section 4.1).
    pub fn forgetting_from_best_of_all(&self) -> f64 {
        let Some(last) = self.last() else { return 0.0 };
        mean((0..=last).map(|i| self.best(i, last + 1) - self.stages[last][i]))
    }

    /// Mean consecutive drop by the formula that CODA-Prompt's paper prints:
    /// `1/(T-1) sum_{s=2..T} 1/s sum_{i<s} (a_{s-1,i} - a_{s,i})`, `s` from 1: over all tasks, the new one too.
    pub fn forgetting_consecutive(&self) -> f64 {
        mean((1..self.tasks()).map(|s| self.drop_at(s) / (s + 1) as f64))
    }

    /// The same over the tasks that can be forgotten: `1/(s-1)` in place of `1/s`. Every task counts alike. So it is in
    /// CODA-Prompt's release, which says that it assumes tasks of one size.
    pub fn forgetting_consecutive_old(&self) -> f64 {
        mean((1..self.tasks()).map(|s| self.drop_at(s) / s as f64))
    }

    /// HePCo's F_N as its release computes it: what the accuracy on the test samples of all old tasks together loses with
    /// each new task. A task counts by its test samples, so it is
    /// [`forgetting_consecutive_old`](AccuracyMatrix::forgetting_consecutive_old) where tasks have as many of them.
    pub fn forgetting_consecutive_old_micro(&self) -> f64 {
        mean((1..self.tasks()).map(|s| self.micro(s - 1) - self.micro_of_first(s, s)))
    }

    /// What a task (from 0) takes from those before it, all together.
    fn drop_at(&self, task: usize) -> f64 {
        (0..task).map(|i| self.stages[task - 1][i] - self.stages[task][i]).sum()
    }

    fn best(&self, task: usize, before: usize) -> f64 {
        (task..before).map(|j| self.stages[j][task]).fold(f64::NEG_INFINITY, f64::max)
    }

    fn last(&self) -> Option<usize> {
        self.tasks().checked_sub(1)
    }
}

/// 0 for no values.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, n) = values.into_iter().fold((0.0, 0u32), |(sum, n), v| (sum + v, n + 1));
    if n == 0 { 0.0 } else { sum / f64::from(n) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use crate::learning::Tally;

    #[test]
    fn golden_metrics_of_the_accuracy_matrix() {
        let Some(golden) = Golden::open("metrics") else { return };
        let a = golden.f64("A");
        let tasks = golden.shape("A")[0];
        let counts = golden.i64("test_counts").into_iter().map(|n| n as u64).collect();
        let mut matrix = AccuracyMatrix::new(counts);
        for j in 0..tasks {
            // Entries above the diagonal are accuracies before training: they must not matter.
            let column: Vec<f64> = (0..tasks).map(|i| a[i * tasks + j]).collect();
            matrix.push_stage(&column);
        }
        let last = tasks - 1;
        let stages = |f: &dyn Fn(usize) -> f64| (0..tasks).map(f).collect::<Vec<f64>>();
        golden.assert_close("faa", &[matrix.faa()]);
        golden.assert_close("final_micro", &[matrix.micro(last)]);
        golden.assert_close("stage_macro", &stages(&|j| matrix.r#macro(j)));
        golden.assert_close("stage_micro", &stages(&|j| matrix.micro(j)));
        golden.assert_close("aia", &[matrix.average_incremental_accuracy()]);
        golden.assert_close("aia_micro", &[matrix.average_incremental_accuracy_micro()]);
        golden.assert_close("forget_last_per_task", &matrix.drops());
        golden.assert_close("forget_last_mean_T", &[matrix.forgetting()]);
        golden.assert_close("forget_max_before", &[matrix.forgetting_from_best()]);
        golden.assert_close("forget_max_any", &[matrix.forgetting_from_best_ever()]);
        golden.assert_close("forget_max_any_T", &[matrix.forgetting_from_best_of_all()]);
        golden.assert_close("forget_consecutive", &[matrix.forgetting_consecutive()]);
        let old = [matrix.forgetting_consecutive_old()];
        golden.assert_close("forget_consecutive_old", &old);
        // Figures that are others by a factor or a sign.
        golden.assert_close(
            "forget_last_mean_old",
            &[matrix.drops().iter().sum::<f64>() / last as f64],
        );
        let forgetting = stages(&|j| matrix.forgetting_from_best_after(j));
        golden.assert_close("forget_stage", &forgetting);
    }

    /// The protocol's check 4: a constant predictor scores the share of its class.
    #[test]
    fn counts_become_percentages_of_their_tasks() {
        let mut tally = Tally::new(4);
        for label in [0, 0, 0, 1, 2, 3] {
            tally.count(&[1.0, 0.0, 0.0, 0.0], label);
        }
        let mut matrix = AccuracyMatrix::new(vec![4, 2]);
        let percent = [0..2, 2..4].map(|rows| 100.0 * tally.accuracy(rows));
        matrix.push_stage(&percent[..1]);
        matrix.push_stage(&percent);
        assert_eq!(matrix.stage(1), [75.0, 0.0]);
        assert_eq!((matrix.faa(), matrix.micro(1)), (37.5, 50.0));
        assert_eq!(matrix.at(1, 0), None);
    }

    /// FedHAF card, section 9: the first stage is the highest and is left out; forgetting is over T tasks, by the
    /// factor (T-1)/T less than over the old ones.
    #[test]
    fn stages_after_the_first_and_forgetting_over_all_tasks() {
        let mut a = AccuracyMatrix::new(vec![100, 300, 100]);
        a.push_stage(&[90.0]);
        a.push_stage(&[40.0, 60.0]);
        a.push_stage(&[50.0, 70.0, 20.0]);
        // Macro 90, 50, 140/3; micro 90, 55, 56.
        assert!((a.average_from_second_stage() - (50.0 + 140.0 / 3.0) / 2.0).abs() < 1e-12);
        assert!((a.average_from_second_stage_micro() - 55.5).abs() < 1e-12);
        // Task 1 fell by 40, task 2 rose to its best at the end, task 3 is new.
        assert!((a.forgetting_from_best_ever() - 20.0).abs() < 1e-12);
        assert!((a.forgetting_from_best_of_all() - 40.0 / 3.0).abs() < 1e-12);
    }

    /// The second task has nine times the test samples of the first, and the third more than both.
    #[test]
    fn consecutive_drops_count_alike_or_by_test_samples() {
        let mut a = AccuracyMatrix::new(vec![10, 90, 300]);
        a.push_stage(&[90.0]);
        a.push_stage(&[70.0, 80.0]);
        a.push_stage(&[60.0, 50.0, 40.0]);
        // Task 1 falls by 20, then tasks 1 and 2 by 10 and 30.
        // Of all tasks: (20/2 + 40/3)/2 = 35/3. Of old tasks alike: (20/1 + 40/2)/2 = 20.
        assert!((a.forgetting_consecutive() - 35.0 / 3.0).abs() < 1e-12);
        assert!((a.forgetting_consecutive_old() - 20.0).abs() < 1e-12);
        // Of old samples: 90 - 70 = 20 over 10 of them; (700 + 7200)/100 - (600 + 4500)/100 = 79 - 51 = 28 over 100.
        // Stages count alike: (20 + 28)/2 = 24.
        assert!((a.forgetting_consecutive_old_micro() - 24.0).abs() < 1e-12);
        // Of tasks of one size both forms of old tasks are one.
        let mut same = AccuracyMatrix::new(vec![7, 7, 7]);
        (0..3).for_each(|after| same.push_stage(a.stage(after)));
        assert!((same.forgetting_consecutive_old_micro() - 20.0).abs() < 1e-12);
    }

    #[test]
    fn an_empty_matrix_has_no_opinion() {
        let matrix = AccuracyMatrix::new(vec![1]);
        assert_eq!(
            (matrix.average_from_second_stage(), matrix.forgetting_from_best_of_all()),
            (0.0, 0.0)
        );
        assert_eq!(
            (matrix.faa(), matrix.forgetting(), matrix.forgetting_from_best()),
            (0.0, 0.0, 0.0)
        );
        assert_eq!(matrix.forgetting_consecutive_old_micro(), 0.0);
    }
}
