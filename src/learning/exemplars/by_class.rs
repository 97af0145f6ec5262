//! Best samples of every class, under one budget for all classes.

use std::collections::BTreeMap;

use crate::wire::{Kind, Loading, SavedField, Saving, WireError};

use clap::ValueEnum;

use crate::scenario::reader::Choice;

/// Number of samples per class that a total budget allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Quota {
    /// Budget divided by the number of classes, rounded down, so that the total never exceeds it.
    Floor,
    /// Budget divided by the number of classes, rounded up, as in the releases of iCaRL.
    ///
    /// The total may exceed the budget by up to one sample per class.
    Ceil,
}

impl Quota {
    /// Returns the quota of one of `classes` classes.
    pub fn of(self, budget: usize, classes: usize) -> usize {
        match self {
            Quota::Floor => budget / classes.max(1),
            Quota::Ceil => budget.div_ceil(classes.max(1)),
        }
    }
}

/// Samples by head row, the best of each class first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByClass {
    rows: BTreeMap<u32, Vec<u32>>,
}

impl ByClass {
    /// Sets the samples of a class, the best first. A class without samples is not stored.
    pub fn insert(&mut self, row: u32, samples: Vec<u32>) {
        if !samples.is_empty() {
            self.rows.insert(row, samples);
        }
    }

    /// Keeps only the first `count` samples of every class.
    pub fn cut(&mut self, count: usize) {
        self.rows.values_mut().for_each(|samples| samples.truncate(count));
        self.rows.retain(|_, samples| !samples.is_empty());
    }

    /// Returns the classes with their samples, in order of head rows.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.rows.iter().map(|(row, samples)| (*row, samples.as_slice()))
    }

    /// Returns the number of known classes.
    pub fn classes(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of stored samples.
    pub fn len(&self) -> usize {
        self.rows.values().map(Vec::len).sum()
    }

    /// Returns true if no sample is stored.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the samples of rows below `row`, ascending.
    pub fn below(&self, row: u32) -> Vec<u32> {
        let mut all: Vec<u32> = self.rows.range(..row).flat_map(|(_, own)| own.clone()).collect();
        all.sort_unstable();
        all
    }
}

/// The metadata holds the rows, a tensor the samples of each.
impl SavedField for ByClass {
    fn save_field(&self, into: &mut Saving) {
        into.meta.u32s(&self.rows.keys().copied().collect::<Vec<_>>());
        into.section(Kind::Exemplars);
        for (row, samples) in self.iter() {
            into.list(Kind::Exemplars, format!("row.{row}"), samples);
        }
    }

    fn load_field(from: &mut Loading<'_>) -> Result<ByClass, WireError> {
        let mut by_class = ByClass::default();
        for row in from.meta.u32s()? {
            by_class.insert(row, from.list(Kind::Exemplars, &format!("row.{row}"))?.to_vec());
        }
        Ok(by_class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;

    #[test]
    fn golden_rehearsal_quotas() {
        let Some(golden) = Golden::open("rehearsal") else { return };
        let classes = golden.i64("quota.classes");
        for (name, quota) in [("quota.floor", Quota::Floor), ("quota.ceil", Quota::Ceil)] {
            let each = classes.iter().map(|classes| quota.of(2_000, *classes as usize) as i64);
            assert_eq!(each.collect::<Vec<_>>(), golden.i64(name));
        }
    }

    /// Rehearsal card, invariant 5: a cut keeps the best, and under a budget rounded down there are never more.
    #[test]
    fn a_budget_keeps_the_best_of_every_class() {
        let mut memory = ByClass::default();
        for classes in 1..=12u32 {
            let row = 2 * classes;
            memory.insert(row, (0..40).map(|at| 100 * row + (7 * at) % 40).collect());
            let each = Quota::Floor.of(50, classes as usize);
            let before = memory.clone();
            memory.cut(each);
            assert_eq!(
                (memory.classes(), memory.len()),
                (classes as usize, each.min(40) * classes as usize)
            );
            assert!(memory.len() <= 50);
            for ((row, kept), (of, all)) in memory.iter().zip(before.iter()) {
                assert_eq!((row, kept), (of, &all[..kept.len()]));
            }
        }
        assert_eq!(memory.below(5), [200, 207, 214, 221, 400, 407, 414, 421]);
        memory.insert(1, Vec::new());
        assert_eq!(memory.classes(), 12);
        memory.cut(0);
        assert!(memory.is_empty());
    }
}
