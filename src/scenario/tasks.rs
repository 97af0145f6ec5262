//! `[tasks]`: how many classes arrive when, and in which order.

use serde::Serialize;

/// How classes arrive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TasksSection {
    /// `count = 5` or `sizes = [50, 10, 10]`; one of them is required.
    #[serde(flatten)]
    pub split: TaskSplit,
    /// Which classes come first. Default `native`.
    pub order: ClassOrder,
}

/// How many classes a task brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskSplit {
    /// So many tasks of `ceil(classes / count)` classes; the last takes what is left.
    Count(u32),
    /// Classes of every task; their sum is the number of classes.
    Sizes(Vec<u32>),
}

/// The order of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassOrder {
    /// As the data set numbers them (HGP's benchmark).
    Native,
    /// Shuffled by `seed.class_order`.
    Seeded,
}

impl TasksSection {
    /// Number of tasks.
    pub fn count(&self) -> u32 {
        match &self.split {
            TaskSplit::Count(count) => *count,
            TaskSplit::Sizes(sizes) => sizes.len() as u32,
        }
    }

    /// Classes of every task of a data set of so many classes; `None` where they do not fit.
    ///
    /// 196 classes in 10 tasks: nine of 20 and one of 16.
    pub fn sizes(&self, classes: u32) -> Option<Vec<u32>> {
        match &self.split {
            TaskSplit::Count(0) => None,
            TaskSplit::Count(count) => {
                let even = classes.div_ceil(*count);
                let before = even.checked_mul(count - 1)?;
                let last = classes.checked_sub(before).filter(|last| *last > 0)?;
                Some((1..*count).map(|_| even).chain([last]).collect())
            }
            TaskSplit::Sizes(sizes) => {
                let sum: u64 = sizes.iter().map(|s| u64::from(*s)).sum();
                (sum == u64::from(classes)).then(|| sizes.clone())
            }
        }
    }
}
