//! State of a client: exemplars by class in herding order, and the samples of a task to choose from.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::data::Shard;
use crate::learning::exemplars::ByClass;
use crate::learning::{Classifier, Herding};
use crate::methods::herded::features_by_row;
use crate::policy::{ClientState, PolicyError, RunContext};
use crate::quantity::TaskId;
use crate::wire::{Kind, Loading, SavedField, Saving, WireError};

/// Exemplars of a client by head row.
///
/// The state names samples by their index in the data set. A real client would keep the samples themselves, and these
/// are the bytes that [`state_bytes`](ClientState::state_bytes) counts. Samples in `waiting` are not counted: they are
/// the client's own data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExemplarState {
    /// Exemplars of every class in herding order, the best first.
    pub by_class: ByClass,
    /// Task and shard whose exemplars are not chosen yet.
    pub(super) waiting: Option<(TaskId, Shard)>,
    /// Number of tasks whose data the client has received: all before this one.
    pub(super) seen: u64,
    /// Bytes of one sample.
    pub(super) sample_bytes: u64,
}

impl ExemplarState {
    /// Chooses exemplars from a shard by herding on this model's unit features.
    ///
    /// `each` returns the quota per class for the number of classes held; earlier classes are cut to it.
    pub(super) fn herd(
        &mut self,
        shard: &Shard,
        model: &Classifier,
        each: impl Fn(usize) -> usize,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let features = features_by_row(shard, model, ctx)?;
        let known = self.by_class.iter().filter(|(row, _)| !features.contains_key(row)).count();
        let each = each(known + features.len());
        for (row, class) in features {
            let order = Herding::GreedyUnit.order(&class.features, class.dim(), each);
            self.by_class.insert(row, order.into_iter().map(|at| class.samples[at]).collect());
        }
        self.by_class.cut(each);
        Ok(())
    }

    /// Keeps all samples of a shard, by class.
    pub(super) fn keep_all(&mut self, shard: &Shard, ctx: &RunContext) {
        let mut by_row: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for sample in shard.iter() {
            let row = ctx.task_sequence.row_of(ctx.dataset.train.labels()[*sample as usize]);
            by_row.entry(row).or_default().push(*sample);
        }
        by_row.into_iter().for_each(|(row, samples)| self.by_class.insert(row, samples));
    }
}

/// The shard that waits is saved after the samples of the classes.
impl SavedField for ExemplarState {
    fn save_field(&self, into: &mut Saving) {
        into.meta.u64(self.sample_bytes).u64(self.seen);
        self.waiting.as_ref().map(|(task, _)| *task).save_field(into);
        self.by_class.save_field(into);
        if let Some((_, shard)) = &self.waiting {
            into.list(Kind::Exemplars, "waiting", Arc::clone(shard));
        }
    }

    fn load_field(from: &mut Loading<'_>) -> Result<ExemplarState, WireError> {
        let (sample_bytes, seen) = (from.meta.u64()?, from.meta.u64()?);
        let waiting = Option::<TaskId>::load_field(from)?;
        let by_class = ByClass::load_field(from)?;
        let waiting = match waiting {
            Some(task) => Some((task, from.list(Kind::Exemplars, "waiting")?)),
            None => None,
        };
        Ok(ExemplarState { by_class, waiting, seen, sample_bytes })
    }
}

impl ClientState for ExemplarState {
    fn state_bytes(&self) -> u64 {
        self.sample_bytes * self.by_class.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Saved;

    /// Rehearsal card, invariant 9.
    #[test]
    fn exemplars_are_read_back_in_their_order() {
        let mut state = ExemplarState { sample_bytes: 3_072, seen: 2, ..ExemplarState::default() };
        state.by_class.insert(3, vec![9, 2, 5]);
        state.by_class.insert(1, vec![4]);
        assert_eq!(ExemplarState::load(&state.save()).unwrap(), state);
        state.waiting = Some((TaskId(0), [7, 8].into()));
        assert_eq!(ExemplarState::load(&state.save()).unwrap(), state);
        assert_eq!(state.state_bytes(), 4 * 3_072);
        assert_eq!(
            ExemplarState::load(&ExemplarState::default().save()).unwrap(),
            ExemplarState::default()
        );
    }
}
