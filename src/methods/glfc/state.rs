//! State of a GLFC client: exemplars, learned rows, shards to choose exemplars from, and maybe an old model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::choosing::Choosing;
use super::compensation::LearnedRows;
use crate::data::{Shard, TaskSequence};
use crate::learning::Classifier;
use crate::learning::exemplars::{ByClass, Quota};
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{ClientState, PolicyError, RunContext};
use crate::quantity::TaskId;
use crate::wire::Saved;

/// State of a GLFC client.
///
/// Samples are stored as indices in the data set. [`state_bytes`](ClientState::state_bytes) counts what a real client
/// would keep: the exemplars themselves and the values of an old model. Shards that it has yet to choose from are its
/// own data.
#[derive(Clone, Debug, Default, PartialEq, Saved)]
pub struct GlfcClientState {
    /// Size of a sample in bytes.
    pub(super) sample_bytes: u64,
    /// Task of the latest signal.
    pub(super) task: Option<TaskId>,
    /// Mean entropy of the received model's predictions, when last computed.
    pub(super) entropy: f64,
    /// Head rows of learned classes, also of those without exemplars.
    pub rows: BTreeSet<u32>,
    /// Exemplars of learned classes, the best of each first.
    pub by_class: ByClass,
    /// Shards of tasks whose classes are not learned yet, the current task last.
    met: BTreeMap<TaskId, Shard>,
    /// Model that the client received when its task began, if the client keeps one.
    ///
    /// Its head has only the rows before those of the task.
    pub old: Option<ParameterSet>,
}

impl GlfcClientState {
    /// Stores the shard that the client holds of a task; of earlier tasks only the newest stays.
    ///
    /// In the releases the classes of a task are overwritten as the next one begins.
    pub(super) fn meet(&mut self, task: TaskId, shard: &Shard) {
        let newest = self.met.keys().next_back().copied();
        if newest.or(self.task).is_none_or(|known| known < task) {
            if let Some(newest) = newest {
                self.met = self.met.split_off(&newest);
            }
            self.met.insert(task, Arc::clone(shard));
        }
    }

    /// Learns the classes of all stored tasks before `task`, which the signal has begun.
    ///
    /// Exemplars are chosen by the model's unit features, or drawn with `key`; all classes are cut to their share of
    /// the budget.
    pub(super) fn learn(
        &mut self,
        task: TaskId,
        model: &Classifier,
        (choosing, key): (Choosing, StreamKey),
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        self.task = Some(task);
        self.sample_bytes = ctx.dataset.train.sample_bytes()?;
        let now = self.met.split_off(&task);
        for shard in std::mem::replace(&mut self.met, now).into_values() {
            let classes = choosing.classes(&shard, model, ctx)?;
            self.rows.extend(classes.iter().map(|class| class.row));
            let each = Quota::Floor.of(choosing.budget, self.rows.len());
            self.by_class.cut(each);
            for class in classes {
                self.by_class.insert(class.row, choosing.choose(&class, each, key));
            }
        }
        Ok(())
    }

    /// Returns the learned head rows with the task of each.
    pub(super) fn of_tasks(&self, task_sequence: &TaskSequence) -> LearnedRows {
        let task =
            |row: u32| task_sequence.tasks.partition_point(|view| view.seen() <= row as usize);
        self.rows.iter().map(|row| (*row, task(*row))).collect()
    }
}

impl ClientState for GlfcClientState {
    fn state_bytes(&self) -> u64 {
        let old = self.old.iter().flat_map(ParameterSet::iter);
        let numbers: u64 = old.map(|(_, parameter)| parameter.values.len() as u64).sum();
        // An image that was chosen several times is stored once.
        let distinct = |(_, chosen): (u32, &[u32])| chosen.iter().collect::<BTreeSet<_>>().len();
        let images = self.by_class.iter().map(distinct).sum::<usize>();
        self.sample_bytes * images as u64 + 4 * numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LinearHead, Parameter};

    #[test]
    fn a_memory_is_read_back() {
        assert_eq!(
            GlfcClientState::load(&GlfcClientState::default().save()).unwrap(),
            GlfcClientState::default()
        );
        let mut memory =
            GlfcClientState { sample_bytes: 64, entropy: 1.5, ..GlfcClientState::default() };
        memory.by_class.insert(3, vec![9, 2, 9]);
        memory.rows.extend([3, 1]);
        memory.task = Some(TaskId(1));
        memory.meet(TaskId(1), &[5, 6].into());
        assert!(memory.met.is_empty(), "met before");
        memory.meet(TaskId(2), &[5, 6].into());
        memory.meet(TaskId(2), &[7].into());
        memory.meet(TaskId(4), &[].into());
        let met = BTreeMap::from([(TaskId(2), [5, 6].into()), (TaskId(4), [].into())]);
        assert_eq!(memory.met, met);
        // A task without a signal before the next one began is never learned.
        let mut later = memory.clone();
        later.meet(TaskId(5), &[8].into());
        let met = BTreeMap::from([(TaskId(4), [].into()), (TaskId(5), [8].into())]);
        assert_eq!(later.met, met);
        assert_eq!(GlfcClientState::load(&memory.save()).unwrap(), memory);
        assert_eq!(memory.state_bytes(), 2 * 64);
        let head = Parameter { shape: vec![2, 3], values: [0.5; 6].into() };
        memory.old = Some([(LinearHead::WEIGHT, head)].into_iter().collect());
        assert_eq!(GlfcClientState::load(&memory.save()).unwrap(), memory);
        assert_eq!(memory.state_bytes(), 2 * 64 + 6 * 4);
    }

    /// With tasks of two rows each, every row belongs to the task that contains it.
    #[test]
    fn learned_rows_are_of_the_task_that_brought_them() {
        use crate::data::{ClassPermutation, TaskSizes};
        let task_sequence =
            TaskSequence::new(6, &ClassPermutation::Native, &TaskSizes::Even(3)).unwrap();
        let mut memory = GlfcClientState::default();
        memory.rows.extend([0, 1, 2, 3, 5]);
        let wanted = LearnedRows::from([(0, 0), (1, 0), (2, 1), (3, 1), (5, 2)]);
        assert_eq!(memory.of_tasks(&task_sequence), wanted);
    }
}
