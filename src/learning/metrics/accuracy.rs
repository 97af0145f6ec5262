//! Accuracy matrix, and the metrics computed from it.
//!
//! Definitions follow the HGP benchmark (`protocol-hgp.md`, section 6) and, for forgetting, also Chaudhry
//! et al. (2018), the STSA release and the prompt line of CODA-Prompt and HePCo. With uneven test sets macro and
//! micro differ: macro averages tasks, micro averages samples.
//!
//! A task without test samples has no accuracy. Every mean is over the tasks (or stages) that have one; a mean over
//! none is `None`.
//!
//! ```
//! use fedcast::learning::AccuracyMatrix;
//! let mut a = AccuracyMatrix::new(vec![100, 300, 0]);
//! a.push_stage(&[Some(90.0)]);
//! a.push_stage(&[Some(80.0), Some(60.0)]); // after task 2: task 1 fell from 90 to 80
//! assert_eq!(a.faa(), Some(70.0));
//! assert_eq!(a.micro(1), Some(65.0));
//! assert_eq!(a.average_incremental_accuracy(), Some(80.0));
//! assert_eq!((a.forgetting(), a.forgetting_from_best()), (Some(5.0), Some(10.0)));
//! a.push_stage(&[Some(70.0), Some(60.0), None]); // nothing of task 3 can be tested
//! assert_eq!(a.faa(), Some(65.0));
//! ```

/// Accuracies `A[i][j]` in percent, with one column per finished task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccuracyMatrix {
    /// Number of test samples of each task.
    test_counts: Vec<u64>,
    /// Accuracy on task `i` after task `j` at `stages[j][i]`, `None` if it has no test samples.
    ///
    /// Row `j` has at least `j + 1` entries.
    stages: Vec<Vec<Option<f64>>>,
}

impl AccuracyMatrix {
    /// Returns an empty matrix over tasks with these numbers of test samples.
    pub fn new(test_counts: Vec<u64>) -> AccuracyMatrix {
        AccuracyMatrix { test_counts, stages: Vec::new() }
    }

    /// Adds the accuracies after the next task: those of tasks `0..=j`, or more if later tasks were measured before
    /// their training.
    ///
    /// # Panics
    /// Panics if there are fewer.
    pub fn push_stage(&mut self, accuracies: &[Option<f64>]) {
        assert!(accuracies.len() > self.stages.len(), "every seen task needs an entry");
        self.stages.push(accuracies.to_vec());
    }

    /// Returns the number of finished tasks.
    pub fn tasks(&self) -> usize {
        self.stages.len()
    }

    /// Returns `A[task][after]`, if it was measured.
    pub fn at(&self, task: usize, after: usize) -> Option<f64> {
        self.stages.get(after)?.get(task).copied().flatten()
    }

    /// Returns the accuracies after task `after` on the tasks seen; `None` for a task without test samples.
    pub fn stage(&self, after: usize) -> &[Option<f64>] {
        &self.stages[after][..=after]
    }

    /// Returns the mean accuracy after task `after` over the tasks seen.
    pub fn r#macro(&self, after: usize) -> Option<f64> {
        mean(self.stage(after).iter().copied().flatten())
    }

    /// Returns the mean accuracy after task `after` over the test samples of the tasks seen.
    pub fn micro(&self, after: usize) -> Option<f64> {
        self.micro_of_first(after + 1, after)
    }

    /// Returns the mean accuracy after task `after` over the test samples of the first `tasks` tasks.
    fn micro_of_first(&self, tasks: usize, after: usize) -> Option<f64> {
        let counted = self.stages[after].iter().zip(&self.test_counts[..tasks]);
        let measured = counted.filter_map(|(accuracy, samples)| Some(((*accuracy)?, *samples)));
        let (sum, total) = measured.fold((0.0, 0), |(sum, total), (accuracy, samples)| {
            (sum + accuracy * samples as f64, total + samples)
        });
        (total > 0).then(|| sum / total as f64)
    }

    /// Returns the final average accuracy (FAA): the macro accuracy after the last task.
    pub fn faa(&self) -> Option<f64> {
        self.r#macro(self.last()?)
    }

    /// Returns the average incremental accuracy: the mean of the macro accuracies after each task.
    pub fn average_incremental_accuracy(&self) -> Option<f64> {
        mean((0..self.tasks()).filter_map(|j| self.r#macro(j)))
    }

    /// Returns the mean of the micro accuracies after each task (STSA's A-bar).
    pub fn average_incremental_accuracy_micro(&self) -> Option<f64> {
        mean((0..self.tasks()).filter_map(|j| self.micro(j)))
    }

    /// Returns the average incremental accuracy without the first stage.
    ///
    /// It is the [`average_incremental_accuracy`](AccuracyMatrix::average_incremental_accuracy) of the other stages: in
    /// the first stage nothing can have been forgotten.
    pub fn average_from_second_stage(&self) -> Option<f64> {
        mean((1..self.tasks()).filter_map(|j| self.r#macro(j)))
    }

    /// Returns the mean of the micro accuracies from the second stage on.
    ///
    /// FedHAF's tables print nine values of ten tasks, of which the first already depends on losses that do not apply
    /// in the first task. So they are read as beginning after the second task.
    pub fn average_from_second_stage_micro(&self) -> Option<f64> {
        mean((1..self.tasks()).filter_map(|j| self.micro(j)))
    }

    /// Returns `A_i^i - A_i^T` of every task; that of the last task is 0.
    pub fn drops(&self) -> Vec<Option<f64>> {
        let Some(last) = self.last() else { return Vec::new() };
        (0..=last).map(|i| Some(self.at(i, i)? - self.at(i, last)?)).collect()
    }

    /// Returns forgetting as in HGP's code: the mean of [`drops`](AccuracyMatrix::drops) over all `T` tasks.
    pub fn forgetting(&self) -> Option<f64> {
        mean(self.drops().into_iter().flatten())
    }

    /// Returns backward transfer (Lopez-Paz and Ranzato 2017): `A_i^T - A_i^i`, mean over the `T - 1` old tasks.
    ///
    /// Negative where tasks were forgotten. `None` after the first task.
    pub fn backward_transfer(&self) -> Option<f64> {
        let old = self.last()?;
        mean(self.drops().into_iter().take(old).flatten().map(|drop| -drop))
    }

    /// Classical forgetting (Chaudhry et al. 2018): best accuracy before the last stage minus the
    /// final one, mean over the `T - 1` old tasks. Negative where a task improved at the end.
    pub fn forgetting_from_best(&self) -> Option<f64> {
        self.forgetting_from_best_after(self.last()?)
    }

    /// Returns [`forgetting_from_best`](AccuracyMatrix::forgetting_from_best) after task `after`. `None` after the
    /// first task.
    pub fn forgetting_from_best_after(&self, after: usize) -> Option<f64> {
        mean((0..after).filter_map(|i| Some(self.best(i, after)? - self.at(i, after)?)))
    }

    /// Returns forgetting from the best accuracy over **all** stages, as in the STSA release. It is averaged over the
    /// `T - 1` old tasks, and never negative, as the last stage is included.
    pub fn forgetting_from_best_ever(&self) -> Option<f64> {
        let last = self.last()?;
        mean((0..last).filter_map(|i| self.fallen_from_best(i, last)))
    }

    /// Returns [`forgetting_from_best_ever`](AccuracyMatrix::forgetting_from_best_ever) over all `T` tasks. The last of
    /// them adds 0 (FedHAF, section 4.1).
    pub fn forgetting_from_best_of_all(&self) -> Option<f64> {
        let last = self.last()?;
        mean((0..=last).filter_map(|i| self.fallen_from_best(i, last)))
    }

    fn fallen_from_best(&self, task: usize, last: usize) -> Option<f64> {
        Some(self.best(task, last + 1)? - self.at(task, last)?)
    }

    /// Returns the mean consecutive drop by the formula in CODA-Prompt's paper.
    ///
    /// It is `1/(T-1) sum_{s=2..T} 1/s sum_{i<s} (a_{s-1,i} - a_{s,i})`, with `s` from 1: an average over all tasks,
    /// including the new one.
    pub fn forgetting_consecutive(&self) -> Option<f64> {
        let of_all = |s| {
            let drops = self.drops_at(s);
            let seen = drops.len() + usize::from(self.at(s, s).is_some());
            (!drops.is_empty()).then(|| drops.iter().sum::<f64>() / seen as f64)
        };
        mean((1..self.tasks()).filter_map(of_all))
    }

    /// Returns the mean consecutive drop over old tasks: with `1/(s-1)` in place of `1/s`.
    ///
    /// Every task counts equally. This is the computation in CODA-Prompt's release, which states that it assumes tasks
    /// of one size.
    pub fn forgetting_consecutive_old(&self) -> Option<f64> {
        mean((1..self.tasks()).filter_map(|s| mean(self.drops_at(s))))
    }

    /// Returns HePCo's F_N as computed in its release: the drop of accuracy on all old test samples per new task.
    ///
    /// Tasks count by their test samples, so it equals
    /// [`forgetting_consecutive_old`](AccuracyMatrix::forgetting_consecutive_old) if all have equally many.
    pub fn forgetting_consecutive_old_micro(&self) -> Option<f64> {
        let lost = |s: usize| Some(self.micro(s - 1)? - self.micro_of_first(s, s)?);
        mean((1..self.tasks()).filter_map(lost))
    }

    /// Returns the drops in accuracy that a task (from 0) causes in each earlier task with test samples.
    fn drops_at(&self, task: usize) -> Vec<f64> {
        (0..task).filter_map(|i| Some(self.at(i, task - 1)? - self.at(i, task)?)).collect()
    }

    fn best(&self, task: usize, before: usize) -> Option<f64> {
        (task..before).filter_map(|j| self.at(task, j)).reduce(f64::max)
    }

    fn last(&self) -> Option<usize> {
        self.tasks().checked_sub(1)
    }
}

/// Returns the mean of some values; `None` if there are none.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.into_iter().fold((0.0, 0u32), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / f64::from(n))
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
            let column: Vec<Option<f64>> = (0..tasks).map(|i| Some(a[i * tasks + j])).collect();
            matrix.push_stage(&column);
        }
        let last = tasks - 1;
        let known = |value: Option<f64>| value.expect("every task was tested");
        let stages = |f: &dyn Fn(usize) -> Option<f64>| {
            (0..tasks).map(|j| known(f(j))).collect::<Vec<f64>>()
        };
        golden.assert_close("faa", &[known(matrix.faa())]);
        golden.assert_close("final_micro", &[known(matrix.micro(last))]);
        golden.assert_close("stage_macro", &stages(&|j| matrix.r#macro(j)));
        golden.assert_close("stage_micro", &stages(&|j| matrix.micro(j)));
        golden.assert_close("aia", &[known(matrix.average_incremental_accuracy())]);
        golden.assert_close("aia_micro", &[known(matrix.average_incremental_accuracy_micro())]);
        let drops: Vec<f64> = matrix.drops().into_iter().map(known).collect();
        golden.assert_close("forget_last_per_task", &drops);
        golden.assert_close("forget_last_mean_T", &[known(matrix.forgetting())]);
        golden.assert_close("forget_max_before", &[known(matrix.forgetting_from_best())]);
        golden.assert_close("forget_max_any", &[known(matrix.forgetting_from_best_ever())]);
        golden.assert_close("forget_max_any_T", &[known(matrix.forgetting_from_best_of_all())]);
        golden.assert_close("forget_consecutive", &[known(matrix.forgetting_consecutive())]);
        let old = [known(matrix.forgetting_consecutive_old())];
        golden.assert_close("forget_consecutive_old", &old);
        // Figures that are others by a factor or a sign.
        golden.assert_close("forget_last_mean_old", &[drops.iter().sum::<f64>() / last as f64]);
        // The oracle has 0 after the first task, where there is nothing to forget.
        let forgetting =
            stages(&|j| matrix.forgetting_from_best_after(j).or((j == 0).then_some(0.0)));
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
        let percent = [0..2, 2..4].map(|rows| tally.accuracy(rows).map(|share| 100.0 * share));
        matrix.push_stage(&percent[..1]);
        matrix.push_stage(&percent);
        assert_eq!(matrix.stage(1), [Some(75.0), Some(0.0)]);
        assert_eq!((matrix.faa(), matrix.micro(1)), (Some(37.5), Some(50.0)));
        assert_eq!(matrix.at(1, 0), None);
    }

    /// FedHAF card, section 9: the first stage is the highest and is left out; forgetting is over T tasks, by the
    /// factor (T-1)/T less than over the old ones.
    #[test]
    fn stages_after_the_first_and_forgetting_over_all_tasks() {
        let mut a = AccuracyMatrix::new(vec![100, 300, 100]);
        a.push_stage(&[90.0].map(Some));
        a.push_stage(&[40.0, 60.0].map(Some));
        a.push_stage(&[50.0, 70.0, 20.0].map(Some));
        // Macro 90, 50, 140/3; micro 90, 55, 56.
        assert_near(a.average_from_second_stage(), (50.0 + 140.0 / 3.0) / 2.0);
        assert_near(a.average_from_second_stage_micro(), 55.5);
        // Task 1 fell by 40, task 2 rose to its best at the end, task 3 is new.
        assert_near(a.forgetting_from_best_ever(), 20.0);
        assert_near(a.forgetting_from_best_of_all(), 40.0 / 3.0);
    }

    /// The second task has nine times the test samples of the first, and the third more than both.
    #[test]
    fn consecutive_drops_count_alike_or_by_test_samples() {
        let mut a = AccuracyMatrix::new(vec![10, 90, 300]);
        a.push_stage(&[90.0].map(Some));
        a.push_stage(&[70.0, 80.0].map(Some));
        a.push_stage(&[60.0, 50.0, 40.0].map(Some));
        // Task 1 falls by 20, then tasks 1 and 2 by 10 and 30.
        // Of all tasks: (20/2 + 40/3)/2 = 35/3. Of old tasks alike: (20/1 + 40/2)/2 = 20.
        assert_near(a.forgetting_consecutive(), 35.0 / 3.0);
        assert_near(a.forgetting_consecutive_old(), 20.0);
        // Of old samples: 90 - 70 = 20 over 10 of them; (700 + 7200)/100 - (600 + 4500)/100 = 79 - 51 = 28 over 100.
        // Stages count alike: (20 + 28)/2 = 24.
        assert_near(a.forgetting_consecutive_old_micro(), 24.0);
        // Of tasks of one size both forms of old tasks are one.
        let mut same = AccuracyMatrix::new(vec![7, 7, 7]);
        (0..3).for_each(|after| same.push_stage(a.stage(after)));
        assert_near(same.forgetting_consecutive_old_micro(), 20.0);
    }

    fn assert_near(found: Option<f64>, wanted: f64) {
        assert!(found.is_some_and(|f| (f - wanted).abs() < 1e-12), "{found:?} is not {wanted}");
    }

    /// The second task has no test samples: it is in no mean, as if the run had tasks 1, 3 and 4 only.
    #[test]
    fn a_task_without_test_samples_is_in_no_mean() {
        let mut a = AccuracyMatrix::new(vec![10, 0, 30, 60]);
        a.push_stage(&[Some(90.0)]);
        a.push_stage(&[Some(60.0), None]);
        a.push_stage(&[Some(70.0), None, Some(50.0)]);
        a.push_stage(&[Some(40.0), None, Some(20.0), Some(80.0)]);
        assert_eq!((a.at(1, 1), a.at(1, 3)), (None, None));
        assert_near(a.r#macro(1), 60.0);
        assert_near(a.faa(), 140.0 / 3.0);
        assert_near(a.micro(3), (400.0 + 600.0 + 4800.0) / 100.0);
        // Macro 90, 60, 60, 140/3.
        assert_near(a.average_incremental_accuracy(), (210.0 + 140.0 / 3.0) / 4.0);
        assert_near(a.average_from_second_stage(), (120.0 + 140.0 / 3.0) / 3.0);
        assert_eq!(a.drops(), [Some(50.0), None, Some(30.0), Some(0.0)]);
        assert_near(a.forgetting(), 80.0 / 3.0);
        // Two old tasks were tested: 90 - 40 and 50 - 20.
        assert_near(a.forgetting_from_best(), 40.0);
        assert_near(a.forgetting_from_best_ever(), 40.0);
        assert_near(a.forgetting_from_best_of_all(), 80.0 / 3.0);
        // 30 of one task; -10 of one old, two seen; 60 of two old, three seen.
        assert_near(a.forgetting_consecutive(), (30.0 - 5.0 + 20.0) / 3.0);
        assert_near(a.forgetting_consecutive_old(), (30.0 - 10.0 + 30.0) / 3.0);
        // 90 - 60; 60 - 70; 55 - 25 over 40 samples.
        assert_near(a.forgetting_consecutive_old_micro(), (30.0 - 10.0 + 30.0) / 3.0);
    }

    #[test]
    fn a_first_task_without_test_samples_leaves_its_stage_out() {
        let mut a = AccuracyMatrix::new(vec![0, 10]);
        a.push_stage(&[None]);
        a.push_stage(&[None, Some(50.0)]);
        assert_eq!((a.r#macro(0), a.micro(0)), (None, None));
        assert_eq!((a.faa(), a.average_incremental_accuracy()), (Some(50.0), Some(50.0)));
        assert_eq!((a.forgetting(), a.forgetting_from_best()), (Some(0.0), None));
        assert_eq!((a.forgetting_consecutive(), a.forgetting_consecutive_old()), (None, None));
    }

    #[test]
    fn of_nothing_there_is_no_value() {
        let mut matrix = AccuracyMatrix::new(vec![1]);
        let all = |matrix: &AccuracyMatrix| {
            [
                matrix.forgetting_from_best(),
                matrix.forgetting_from_best_ever(),
                matrix.forgetting_consecutive(),
                matrix.forgetting_consecutive_old(),
                matrix.forgetting_consecutive_old_micro(),
                matrix.average_from_second_stage(),
                matrix.average_from_second_stage_micro(),
            ]
        };
        assert_eq!(all(&matrix), [None; 7]);
        assert_eq!((matrix.faa(), matrix.forgetting()), (None, None));
        assert_eq!(matrix.average_incremental_accuracy(), None);
        // One task has nothing to forget: no value, and not 0.
        matrix.push_stage(&[Some(70.0)]);
        assert_eq!(all(&matrix), [None; 7]);
        assert_eq!((matrix.faa(), matrix.forgetting()), (Some(70.0), Some(0.0)));
    }
}
