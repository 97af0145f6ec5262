//! What a client keeps: samples of the tasks it has held, chosen from their frozen features.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::FedHafConfig;
use super::features::shard_features;
use crate::data::Shard;
use crate::learning::exemplars;
use crate::policy::{ClientState, Lab, Member, Method, PolicyError};
use crate::quantity::TaskId;
use crate::wire::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};

/// A client's exemplars by task. The state names samples by their index in the data set; what a client would
/// keep are the samples themselves, and these are what [`kept_bytes`](ClientState::kept_bytes) counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exemplars {
    tasks: BTreeMap<TaskId, Shard>,
    /// Of one sample.
    sample_bytes: u64,
}

impl Exemplars {
    /// The samples of tasks before `task`, ascending.
    pub fn before(&self, task: TaskId) -> Vec<u32> {
        let old = self.tasks.range(..task).flat_map(|(_, samples)| samples.iter().copied());
        let mut old: Vec<u32> = old.collect();
        old.sort_unstable();
        old
    }

    /// Whether the samples of a task have been chosen.
    fn knows(&self, task: TaskId) -> bool {
        self.tasks.contains_key(&task)
    }
}

/// Chooses exemplars of every task that a member has held and not chosen from yet: of those it missed, and of
/// the current one, whose choice does not depend on what will be trained on it.
pub(super) fn herd<M: Method<State = Exemplars>>(
    config: &FedHafConfig,
    member: &mut Member<'_, M>,
    lab: &Lab,
) -> Result<(), PolicyError> {
    if config.retention <= 0.0 {
        return Ok(());
    }
    let missed = member.missed.iter().map(|missed| (missed.task, Arc::clone(&missed.shard)));
    let current = (member.seat.view.task, Arc::clone(&member.shard));
    let held: Vec<(TaskId, Shard)> = missed.chain([current]).collect();
    for (task, shard) in held {
        if member.state.knows(task) || shard.is_empty() {
            continue;
        }
        let view = lab.curriculum.tasks.get(task.index()).ok_or_else(|| {
            PolicyError::Unsupported(format!("{task} is not among the tasks of this run"))
        })?;
        let (features, labels) = shard_features(lab, &shard)?;
        let (rule, share, rows) = (config.herding, config.retention, view.rows.clone());
        let chosen = exemplars(rule, share, rows, &shard, &labels, &features);
        member.state.tasks.insert(task, chosen.into());
        member.state.sample_bytes = lab.dataset.train.sample_bytes()?;
    }
    Ok(())
}

impl ClientState for Exemplars {
    fn save(&self) -> Body {
        let mut meta = MetaWriter::new();
        meta.u64(self.sample_bytes);
        meta.u32s(&self.tasks.keys().map(|task| u32::from(task.0)).collect::<Vec<_>>());
        let tensor = |(task, samples): (&TaskId, &Shard)| {
            NamedTensor::u32(format!("task.{}", task.0), [samples.len()], samples.to_vec())
                .expect("a list fills its length")
        };
        let tensors = self.tasks.iter().map(tensor).collect();
        Body::new(meta.finish(), vec![Section::new(Kind::Exemplars, tensors)])
    }

    fn load(saved: &Body) -> Result<Self, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (sample_bytes, tasks) = (meta.u64()?, meta.u32s()?);
        meta.finish()?;
        let of = |task: u32| -> Result<(TaskId, Shard), WireError> {
            let samples = saved.tensor(Kind::Exemplars, &format!("task.{task}"))?.as_u32()?;
            Ok((TaskId(task as u16), Arc::clone(samples)))
        };
        Ok(Exemplars { tasks: tasks.into_iter().map(of).collect::<Result<_, _>>()?, sample_bytes })
    }

    fn kept_bytes(&self) -> u64 {
        self.sample_bytes * self.tasks.values().map(|samples| samples.len() as u64).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_back_and_counts_samples() {
        let tasks = [(TaskId(2), Shard::from([3, 9])), (TaskId(0), Shard::from([5]))];
        let kept = Exemplars { tasks: tasks.into_iter().collect(), sample_bytes: 3_072 };
        assert_eq!(Exemplars::load(&kept.save()).unwrap(), kept);
        assert_eq!((kept.before(TaskId(2)), kept.before(TaskId(3))), (vec![5], vec![3, 5, 9]));
        assert_eq!((kept.kept_bytes(), Exemplars::default().kept_bytes()), (3 * 3_072, 0));
        assert_eq!(Exemplars::load(&Exemplars::default().save()).unwrap(), Exemplars::default());
    }
}
