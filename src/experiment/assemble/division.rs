//! Data of a scenario divided among its clients, without network and weights.

use std::sync::Arc;

use super::blueprint::{Holders, holders_of, task_sequence_of};
use super::error::AssembleError;
use crate::data::{DataError, Dataset, TaskSequence, Tokenizer};
use crate::experiment::ClassNames;
use crate::federation::ShardSource;
use crate::scenario::Scenario;

/// Data of a scenario, its tasks, and the samples of every client.
pub struct DividedData {
    /// The data set as clients hold it.
    pub dataset: Dataset,
    /// The names of its classes, in its own numbers.
    pub class_names: ClassNames,
    /// The tasks.
    pub task_sequence: Arc<TaskSequence>,
    /// The samples of every client in every task.
    pub shards: ShardSource,
}

/// Opens the data and divides them as a run does; weights need not be there.
///
/// # Errors
/// Returns an error if data are missing or damaged, or the partition is not possible.
pub fn divided(scenario: &Scenario) -> Result<DividedData, AssembleError> {
    let tokenizer = Tokenizer::from_scenario(&scenario.backbone)?;
    let (dataset, _) = Dataset::with_auxiliary(scenario, &tokenizer)?;
    let class_names = ClassNames::of_dataset(&dataset);
    let task_sequence = Arc::new(task_sequence_of(scenario, dataset.classes())?);
    let dataset = task_sequence.dataset(dataset)?;
    let shards = shards(scenario, &dataset, &task_sequence)?;
    Ok(DividedData { dataset, class_names, task_sequence, shards })
}

/// Returns the samples of every client in every task.
pub(super) fn shards(
    scenario: &Scenario,
    dataset: &Dataset,
    task_sequence: &TaskSequence,
) -> Result<ShardSource, AssembleError> {
    let clients = scenario.federation.clients;
    Ok(match holders_of(scenario, clients, task_sequence, Some(dataset))? {
        Holders::Fresh(fresh) => ShardSource::Fresh(fresh),
        Holders::Natural(natural) => ShardSource::Drawn(
            task_sequence.tasks.iter().map(|view| natural.shards(view)).collect(),
        ),
        Holders::Fixed(partitioner) => {
            let of = |view| partitioner.shards(view, dataset.train.by_class());
            let all: Result<_, DataError> = task_sequence.tasks.iter().map(|v| of(v)).collect();
            let advised = |error| partitioner.advised(error, task_sequence, &dataset.class_sizes());
            ShardSource::Drawn(all.map_err(advised)?)
        }
        Holders::ClientTasks(client_tasks) => {
            let stages =
                task_sequence.tasks.iter().map(|view| client_tasks.shards(view.task, dataset));
            ShardSource::Drawn(stages.collect())
        }
    })
}
