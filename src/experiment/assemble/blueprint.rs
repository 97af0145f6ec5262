//! Facts that follow from a scenario alone: classes, tasks, label counts, dimensions, method. `plan` needs nothing
//! else: no data, no weights. Only where nothing else gives the sizes of classes, or the owners of samples, data that
//! are present are listed, without decoding an image.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::error::AssembleError;
use crate::data::{
    AuxiliaryFacts, ClientTask, ClientTasks, DataError, Dataset, FreshClients, NaturalClients,
    Partitioner, TaskSequence, TaskView, is_present, nominal_class_sizes,
};
use crate::federation::{LabelCountSource, by_row};
use crate::policy::ClassCounts;
use crate::quantity::{ClientId, TaskId};
use crate::scenario::reader::Choice;
use crate::scenario::{DataSource, NominalSizes, PartitionKind, Population, Scenario};

/// Distribution of samples among clients.
#[derive(Clone, Debug)]
pub enum Holders {
    /// Fixed clients, each with a shard of every task.
    Fixed(Partitioner),
    /// Natural owners in the data, each with its own samples.
    Natural(Arc<NaturalClients>),
    /// New clients every round; a shard is drawn when its client is sampled.
    Fresh(FreshClients),
    /// Fixed clients, each with its own tasks.
    ClientTasks(Arc<ClientTasks>),
}

/// Returns the distribution of samples among `clients` clients; `data` are those that are present. If natural
/// clients' data are absent, their counts are unknown: then all get equal random parts.
pub fn holders_of(
    scenario: &Scenario,
    clients: u32,
    task_sequence: &TaskSequence,
    data: Option<&Dataset>,
) -> Result<Holders, DataError> {
    if let Some(client_tasks) = &task_sequence.client_tasks {
        return Ok(Holders::ClientTasks(Arc::clone(client_tasks)));
    }
    let (section, seed) = (&scenario.partition, scenario.seed.partition);
    if let Some(data) = data
        && let Some(natural) = NaturalClients::from_scenario(section, clients, &data.train)?
    {
        return Ok(Holders::Natural(Arc::new(natural)));
    }
    Ok(match scenario.participation.population {
        Population::Fixed => Holders::Fixed(Partitioner::from_scenario(section, clients, seed)?),
        Population::Fresh => Holders::Fresh(FreshClients::from_scenario(section, seed)?),
    })
}

/// Data of a scenario that are present: labels and owners, no images.
#[derive(Debug)]
pub struct ListedDataset {
    /// Training and test data.
    pub data: Dataset,
    /// Number of auxiliary samples.
    pub auxiliary_samples: Option<usize>,
}

/// Lists the data of a scenario, if a plan needs them and they are there.
///
/// A plan needs them if a file gives the partition, and does not if `data.nominal` states the sizes of classes.
pub fn listed_dataset(scenario: &Scenario) -> Result<Option<ListedDataset>, DataError> {
    let data = &scenario.data;
    let listed = matches!(scenario.partition.kind, PartitionKind::File { .. });
    let natural = matches!(scenario.partition.kind, PartitionKind::Natural { .. });
    let stated = data.source.is_built_in() || data.nominal.is_some();
    let needed = data.source == DataSource::Play || natural || !stated;
    match listed || (needed && is_present(data)) {
        true => {
            let (data, taken) = Dataset::listed_from_scenario(scenario)?;
            Ok(Some(ListedDataset { data, auxiliary_samples: taken.map(|taken| taken.len()) }))
        }
        false => Ok(None),
    }
}

/// Returns the assumption of a plan about data that it has not read.
///
/// `None` if it has read them, or if they are built in.
pub fn assumed(scenario: &Scenario, listed: Option<&ListedDataset>) -> Option<String> {
    let data = &scenario.data;
    let sizes = data.sizes().filter(|_| listed.is_none())?;
    let NominalSizes { classes, train, .. } = sizes;
    let source = data.source.word();
    match (data.source, data.nominal) {
        (_, Some(_)) => Some(format!(
            "class sizes are those of data.nominal ({train} training samples in {classes} classes); the data are not \
             read"
        )),
        (DataSource::Digits | DataSource::Synthetic, None) => None,
        (_, None) => {
            let kept = if data.subset.is_some() { ", as data.subset keeps them" } else { "" };
            Some(format!(
                "the data are not here: class sizes are those of the published {source} ({train} training samples{kept})"
            ))
        }
    }
}

/// Draws the partition of a scenario from its class sizes, if these are known without its data.
///
/// # Errors
/// Fails if a task has too few samples for its clients, or auxiliary samples are too few for their shards.
pub fn divide(scenario: &Scenario) -> Result<(), DataError> {
    DrawnPartitions::default().draw(scenario)
}

/// Partitions that were drawn already, for scenarios that share them, such as the methods of a study.
#[derive(Clone, Debug, Default)]
pub struct DrawnPartitions {
    /// Keys of the partitions; see [`partition_key`].
    drawn: BTreeSet<String>,
}

impl DrawnPartitions {
    /// Draws the partition of a scenario as [`divide`] does, unless an equal one was drawn before.
    ///
    /// # Errors
    /// Those of [`divide`].
    pub fn draw(&mut self, scenario: &Scenario) -> Result<(), DataError> {
        AuxiliaryFacts::check(scenario)?;
        let drawn = !matches!(
            scenario.partition.kind,
            PartitionKind::File { .. }
                | PartitionKind::Natural { .. }
                | PartitionKind::Slices { .. }
        );
        let known = || nominal_class_sizes(&scenario.data);
        let Some(sizes) = drawn.then(known).flatten() else { return Ok(()) };
        let task_sequence = task_sequence_of(scenario, sizes.len())?;
        let key = partition_key(scenario);
        if self.drawn.contains(&key) {
            return Ok(());
        }
        let sizes = task_sequence.class_sizes(sizes);
        holders_of(scenario, scenario.federation.clients, &task_sequence, None)?
            .counts(&task_sequence, &sizes)?;
        self.drawn.insert(key);
        Ok(())
    }
}

/// Returns a text that is equal for scenarios with the same partition: everything that it depends on.
pub fn partition_key(scenario: &Scenario) -> String {
    let Scenario { data, tasks, partition, seed, federation, participation, .. } = scenario;
    let (clients, population) = (federation.clients, participation.population);
    format!("{data:?} {tasks:?} {partition:?} {seed:?} {clients} {population:?}")
}

/// Returns the training samples of every class id of the data set. They are those of the data that are present, or
/// the nominal ones; see [`TaskSequence::class_sizes`].
pub fn class_sizes(
    scenario: &Scenario,
    data: Option<&Dataset>,
) -> Result<Vec<usize>, AssembleError> {
    if let Some(data) = data {
        return Ok(data.class_sizes());
    }
    nominal_class_sizes(&scenario.data).ok_or_else(|| {
        AssembleError::unsupported_at(
            "data.path",
            "the data are missing, so class sizes are unknown",
            "check data.path, or set data.nominal = { classes = .., train = .., test = .. } for plans",
        )
    })
}

/// Returns classes and tasks of a data set of `classes` classes.
pub fn task_sequence_of(scenario: &Scenario, classes: usize) -> Result<TaskSequence, DataError> {
    TaskSequence::from_scenario(scenario, classes)
}

/// Checks requirements of the method that depend on the number of classes in the data.
///
/// # Errors
/// Returns the first requirement that is not met.
pub fn check_requirements(scenario: &Scenario, classes: usize) -> Result<(), AssembleError> {
    let first = scenario.violations_with_classes(classes).into_iter().next();
    first.map_or(Ok(()), |violation| Err(AssembleError::Requirement(violation)))
}

impl Holders {
    /// Returns the label counts of clients, from the sizes of classes alone.
    ///
    /// # Errors
    /// When a class has too few samples for its clients.
    pub fn counts(
        &self,
        task_sequence: &TaskSequence,
        class_sizes: &[usize],
    ) -> Result<LabelCountSource, DataError> {
        let rows = |view: &TaskView, all: Vec<Vec<u32>>| -> Vec<ClassCounts> {
            all.iter().map(|counts| by_row(view, counts)).collect()
        };
        let tasks = task_sequence.tasks.iter();
        Ok(LabelCountSource::Drawn(match self {
            Holders::Fresh(clients) => {
                let class_sizes = class_sizes.to_vec();
                return Ok(LabelCountSource::Fresh { clients: *clients, class_sizes });
            }
            Holders::Fixed(partitioner) => tasks
                .map(|view| Ok(rows(view, partitioner.counts(view, class_sizes)?)))
                .collect::<Result<_, DataError>>()
                .map_err(|error| partitioner.advised(error, task_sequence, class_sizes))?,
            Holders::Natural(natural) => {
                tasks.map(|view| rows(view, natural.counts(view))).collect()
            }
            Holders::ClientTasks(client_tasks) => {
                tasks.map(|view| client_tasks_of(client_tasks, view.task, class_sizes)).collect()
            }
        }))
    }
}

/// Returns the label counts of the client tasks of a stage, by client.
fn client_tasks_of(
    client_tasks: &ClientTasks,
    stage: TaskId,
    class_sizes: &[usize],
) -> Vec<ClassCounts> {
    let of = |client: u32| {
        let rows = client_tasks.view(ClientTask { stage, client: ClientId(client) }).rows.clone();
        let held = rows.map(|row| (row as u32, class_sizes[row] as u32));
        held.filter(|(_, count)| *count > 0).collect()
    };
    (0..client_tasks.rules().clients).map(of).collect()
}
