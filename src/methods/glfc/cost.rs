//! Numbers of exemplars that a client is assumed to hold and to choose, for virtual time.

use super::config::Glfc;
use super::outputs::Outputs;
use crate::data::TaskView;
use crate::learning::exemplars::Quota;

impl Glfc {
    /// Returns the number of classes that a client is assumed to have learned before a task.
    pub(super) fn learned_before(&self, view: &TaskView) -> usize {
        match self.outputs {
            Outputs::Seen => view.rows.start,
            Outputs::Own => view.task.index() * view.rows.len(),
        }
    }

    /// Returns the number of exemplars that a client is assumed to choose of each class of the task before.
    ///
    /// With `repeats` it does not depend on the samples of a class, if there are any.
    pub(super) fn chosen_of_each_class(&self, view: &TaskView, samples: usize) -> usize {
        let each = Quota::Floor.of(self.memory_size as usize, self.learned_before(view).max(1));
        match self.repeats {
            true => each,
            false => each.min(samples.div_ceil(view.rows.len().max(1))),
        }
    }

    /// Returns the number of exemplars that a client is assumed to train on in a task.
    ///
    /// Earlier shards are not known to virtual time, so they are assumed to be as large as the current one. With
    /// `repeats` the exemplars fill the budget, except for a remainder that does not divide evenly among the learned
    /// classes; a sample that was chosen several times is trained on as often.
    pub(super) fn held_exemplars(&self, view: &TaskView, samples: usize) -> usize {
        let learned = self.learned_before(view);
        if learned == 0 || samples == 0 {
            return 0;
        }
        let room = learned * Quota::Floor.of(self.memory_size as usize, learned);
        match self.repeats {
            true => room,
            false => room.min(samples.saturating_mul(view.task.index())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassPermutation, TaskSequence, TaskSizes};

    /// Twelve classes in four tasks of three, ten samples of each task, and a budget of 40.
    #[test]
    fn exemplars_fill_the_budget_only_with_repeats() {
        let tasks = TaskSequence::new(12, &ClassPermutation::Native, &TaskSizes::Even(4)).unwrap();
        let numbers = |repeats, outputs| -> Vec<(usize, usize)> {
            let glfc = Glfc { memory_size: 40, repeats, outputs, ..Glfc::default() };
            let of = |view: &TaskView| {
                (glfc.held_exemplars(view, 10), glfc.chosen_of_each_class(view, 10))
            };
            tasks.tasks.iter().skip(1).map(|view| of(view)).collect()
        };
        // A budget of 40 among three, six and nine classes is 13, 6 and 4 of each.
        let repeated = [(39, 13), (36, 6), (36, 4)];
        assert_eq!(numbers(true, Outputs::Seen), repeated);
        assert_eq!(numbers(true, Outputs::Own), repeated);
        // A class has at most four of ten samples; after three tasks there are 30, fewer than 4 times 9.
        assert_eq!(numbers(false, Outputs::Seen), [(10, 4), (20, 4), (30, 4)]);
        let glfc = Glfc { memory_size: 40, ..Glfc::default() };
        assert!(glfc.repeats, "the default");
        assert_eq!(glfc.held_exemplars(&tasks.tasks[0], 10), 0, "nothing is learned");
        assert_eq!(glfc.held_exemplars(&tasks.tasks[2], 0), 0, "there is nothing to choose from");
        let small = Glfc { memory_size: 5, ..glfc };
        assert_eq!(small.held_exemplars(&tasks.tasks[2], 10), 0, "less than one of each class");
    }
}
