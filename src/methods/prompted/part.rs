//! Means of uploads: of what all tasks share over all clients, and of what a task owns over those that learnt it.

use std::collections::BTreeMap;

use crate::model::ParameterSet;
use crate::policy::{ParameterAverage, Part};

/// What is left of uploads until the round closes. Where seats of one round are at different tasks, rows that
/// belong to a task are averaged over the clients that learnt it: nobody else could change them.
#[derive(Clone, Debug, Default)]
pub struct PromptedPart {
    shared: ParameterAverage,
    by_task: BTreeMap<u16, ParameterAverage>,
}

impl PromptedPart {
    /// One seat's: what it shares with other tasks, and the rows of its own.
    pub fn one(task: u16, shared: ParameterAverage, own: ParameterAverage) -> PromptedPart {
        PromptedPart { shared, by_task: [(task, own)].into() }
    }

    /// `base` and the means of differences.
    pub fn apply(&self, base: &ParameterSet) -> ParameterSet {
        let shared = self.shared.apply(base);
        self.by_task.values().fold(shared, |set, average| average.apply(&set))
    }
}

impl Part for PromptedPart {
    fn merge(self, later: Self) -> Self {
        let mut by_task = self.by_task;
        for (task, average) in later.by_task {
            let merged = match by_task.remove(&task) {
                Some(mine) => mine.merge(average),
                None => average,
            };
            by_task.insert(task, merged);
        }
        PromptedPart { shared: self.shared.merge(later.shared), by_task }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Parameter;

    fn set(values: [f32; 3]) -> ParameterSet {
        let of = |value| Parameter { shape: vec![1], values: [value].into() };
        [("shared", of(values[0])), ("first", of(values[1])), ("second", of(values[2]))]
            .into_iter()
            .collect()
    }

    #[test]
    fn rows_of_a_task_are_averaged_over_those_that_learnt_it() {
        let base = set([0.0; 3]);
        let part = |task: u16, weight: f64, values: [f32; 3]| {
            let name = if task == 0 { "first" } else { "second" };
            let of = |name: &str| {
                let (base, learnt) =
                    (base.filter(|n| n == name), set(values).filter(|n| n == name));
                ParameterAverage::one(weight, &base, &learnt).unwrap()
            };
            PromptedPart::one(task, of("shared"), of(name))
        };
        let seats = [
            part(0, 1.0, [1.0, 2.0, 0.0]),
            part(1, 2.0, [4.0, 0.0, 6.0]),
            part(0, 1.0, [1.0, 4.0, 0.0]),
        ];
        let merged = seats.into_iter().reduce(Part::merge).unwrap().apply(&base);
        assert_eq!(merged, set([2.5, 3.0, 6.0]));
    }
}
