//! Means of uploads: of what all tasks share over all clients, and of what a task, or a slot, owns over those that
//! learnt it.

use std::collections::BTreeMap;

use crate::model::ParameterSet;
use crate::policy::{ParameterAverage, Part};

/// What is left of uploads until the round closes. Where seats of one round are at different tasks, rows that
/// belong to a task are averaged over the clients that learnt it: nobody else could change them.
#[derive(Clone, Debug, Default)]
pub struct PromptedPart {
    shared: ParameterAverage,
    owned: BTreeMap<Owner, ParameterAverage>,
}

/// Whose rows they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// Prompts of a task, from 0.
    Task(u16),
    /// Head rows from here on: those of a task, or of one client's slot.
    Head(u32),
}

impl PromptedPart {
    /// One seat's: what it shares with other tasks, and the rows of its own.
    pub fn one(shared: ParameterAverage, own: [(Owner, ParameterAverage); 2]) -> PromptedPart {
        PromptedPart { shared, owned: own.into() }
    }

    /// `base` and the means of differences.
    pub fn apply(&self, base: &ParameterSet) -> ParameterSet {
        let shared = self.shared.apply(base);
        self.owned.values().fold(shared, |set, average| average.apply(&set))
    }
}

impl Part for PromptedPart {
    fn merge(self, later: Self) -> Self {
        let mut owned = self.owned;
        for (owner, average) in later.owned {
            let merged = match owned.remove(&owner) {
                Some(mine) => mine.merge(average),
                None => average,
            };
            owned.insert(owner, merged);
        }
        PromptedPart { shared: self.shared.merge(later.shared), owned }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Parameter;

    fn set(values: [f32; 4]) -> ParameterSet {
        let of = |value| Parameter { shape: vec![1], values: [value].into() };
        let names = ["shared", "first", "second", "head"];
        names.into_iter().zip(values.map(of)).collect()
    }

    #[test]
    fn rows_of_a_task_are_averaged_over_those_that_learnt_it() {
        let base = set([0.0; 4]);
        let part = |task: u16, weight: f64, values: [f32; 4]| {
            let name = if task == 0 { "first" } else { "second" };
            let of = |name: &str| {
                let (base, learnt) =
                    (base.filter(|n| n == name), set(values).filter(|n| n == name));
                ParameterAverage::one(weight, &base, &learnt).unwrap()
            };
            let owned = [(Owner::Task(task), of(name)), (Owner::Head(0), of("head"))];
            PromptedPart::one(of("shared"), owned)
        };
        let seats = [
            part(0, 1.0, [1.0, 2.0, 0.0, 8.0]),
            part(1, 2.0, [4.0, 0.0, 6.0, 0.0]),
            part(0, 1.0, [1.0, 4.0, 0.0, 0.0]),
        ];
        let merged = seats.into_iter().reduce(Part::merge).unwrap().apply(&base);
        assert_eq!(merged, set([2.5, 3.0, 6.0, 2.0]));
    }
}
