//! Samples that a client keeps from task to task.

use std::collections::BTreeMap;

use crate::data::Shard;
use crate::quantity::TaskId;
use crate::wire::{Kind, Loading, Saved, SavedField, Saving, WireError};

/// Samples that a client keeps, by task.
///
/// The state stores indices into the data set, but [`bytes`](ByTask::bytes) counts the samples themselves, which a real
/// client would have to keep.
#[derive(Clone, Debug, Default, PartialEq, Saved)]
pub struct ByTask {
    /// Bytes of one sample.
    sample_bytes: u64,
    tasks: BTreeMap<TaskId, Shard>,
}

impl ByTask {
    /// Keeps these samples of a task, of `sample_bytes` bytes each.
    pub fn keep(&mut self, task: TaskId, samples: Shard, sample_bytes: u64) {
        self.tasks.insert(task, samples);
        self.sample_bytes = sample_bytes;
    }

    /// Returns true if samples of a task have been chosen, even if none.
    pub fn knows(&self, task: TaskId) -> bool {
        self.tasks.contains_key(&task)
    }

    /// Returns the samples of tasks before `task`, ascending.
    pub fn before(&self, task: TaskId) -> Vec<u32> {
        let old = self.tasks.range(..task).flat_map(|(_, samples)| samples.iter().copied());
        let mut old: Vec<u32> = old.collect();
        old.sort_unstable();
        old
    }

    /// Returns the bytes of all kept samples.
    pub fn bytes(&self) -> u64 {
        self.sample_bytes * self.tasks.values().map(|samples| samples.len() as u64).sum::<u64>()
    }
}

/// The metadata holds the tasks, a tensor the samples of each.
impl SavedField for BTreeMap<TaskId, Shard> {
    fn save_field(&self, into: &mut Saving) {
        into.meta.u32s(&self.keys().map(|task| u32::from(task.0)).collect::<Vec<_>>());
        into.section(Kind::Exemplars);
        for (task, samples) in self {
            into.list(Kind::Exemplars, format!("task.{}", task.0), Shard::clone(samples));
        }
    }

    fn load_field(from: &mut Loading<'_>) -> Result<Self, WireError> {
        let tasks = from.meta.u32s()?;
        let samples = |task: u32| {
            Ok((TaskId(task as u16), from.list(Kind::Exemplars, &format!("task.{task}"))?))
        };
        tasks.into_iter().map(samples).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_and_counts_samples() {
        let mut kept = ByTask::default();
        kept.keep(TaskId(2), [3, 9].into(), 3_072);
        kept.keep(TaskId(0), [5].into(), 3_072);
        assert_eq!(ByTask::load(&kept.save()).unwrap(), kept);
        assert_eq!((kept.before(TaskId(2)), kept.before(TaskId(3))), (vec![5], vec![3, 5, 9]));
        assert!(kept.knows(TaskId(0)) && !kept.knows(TaskId(1)));
        assert_eq!((kept.bytes(), ByTask::default().bytes()), (3 * 3_072, 0));
        let nothing = ByTask::default();
        assert_eq!(ByTask::load(&nothing.save()).unwrap(), nothing);
    }
}
