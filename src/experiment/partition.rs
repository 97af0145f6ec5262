//! Training samples by client, class and task. They are the result of drawing a scenario's `[partition]`.
//!
//! The journal does not hold it, for it follows from scenario and data.

use std::collections::BTreeMap;

use crate::data::{Dataset, TaskSequence};
use crate::federation::ShardSource;
use crate::quantity::{ClientId, TaskId};

/// Samples of one class that a client holds in a task; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Task in which the client holds them, from 0.
    pub task: TaskId,
    /// Client that holds them, from 0.
    pub client: ClientId,
    /// Class, in the data set's numbers.
    pub class: u32,
    /// Number of training samples, at least 1.
    pub samples: u64,
}

/// Returns the label counts in the order of tasks, clients and classes. `None` for a population that is new in every
/// round, whose shards are drawn on request.
pub fn holdings(
    shards: &ShardSource,
    dataset: &Dataset,
    task_sequence: &TaskSequence,
) -> Option<Vec<Holding>> {
    let ShardSource::Drawn(drawn) = shards else { return None };
    let labels = dataset.train.labels();
    let class_of = |sample: u32| {
        let label = labels[sample as usize];
        // Where clients have tasks of their own, labels are of the data set of client tasks.
        match &task_sequence.client_tasks {
            None => label,
            Some(client_tasks) => client_tasks.class_at(task_sequence.row_of(label) as usize),
        }
    };
    let mut all = Vec::new();
    for (task, shards) in (0..).zip(drawn) {
        for (client, shard) in (0..).zip(shards) {
            let mut classes: BTreeMap<u32, u64> = BTreeMap::new();
            for sample in shard.iter() {
                *classes.entry(class_of(*sample)).or_default() += 1;
            }
            let (task, client) = (TaskId(task), ClientId(client));
            all.extend(classes.into_iter().map(|(class, samples)| Holding {
                task,
                client,
                class,
                samples,
            }));
        }
    }
    Some(all)
}
