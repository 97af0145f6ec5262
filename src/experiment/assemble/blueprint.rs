//! What follows from a scenario alone: classes, tasks, who holds how many samples of what.
//!
//! `plan` needs nothing else. Sizes of classes come from the embedded digits, from the data
//! set's published numbers, or from `data.nominal`, spread evenly over classes.

use std::sync::Arc;

use crate::data::{
    ClassOrder, Curriculum, DataError, FreshClients, FreshLaw, PartitionKind, Partitioner, Shard,
    TaskSizes, TaskView, digits,
};
use crate::experiment::ExperimentError;
use crate::policy::ClassCounts;
use crate::quantity::ClientId;
use crate::scenario::{self, DataSource, Population, Scenario, TaskSplit};

/// Who holds which samples.
#[derive(Clone, Debug)]
pub enum Holders {
    /// The same clients all along, each with a shard of every task.
    Fixed(Partitioner),
    /// New clients every round; shards are made when they are asked.
    Fresh(FreshClients),
}

/// Classes and tasks of a run.
pub fn curriculum(scenario: &Scenario, classes: usize) -> Result<Curriculum, ExperimentError> {
    let order = match scenario.tasks.order {
        scenario::ClassOrder::Native => ClassOrder::Native,
        scenario::ClassOrder::Seeded => ClassOrder::Seeded(scenario.seed.class_order),
    };
    let sizes = match &scenario.tasks.split {
        TaskSplit::Count(count) => TaskSizes::Even(*count as usize),
        TaskSplit::Sizes(sizes) => {
            TaskSizes::Explicit(sizes.iter().map(|size| *size as usize).collect())
        }
    };
    Ok(Curriculum::new(classes, &order, &sizes)?)
}

/// Who holds which samples, of so many clients.
pub fn holders(scenario: &Scenario, clients: u32) -> Result<Holders, ExperimentError> {
    let section = &scenario.partition;
    if scenario.participation.population == Population::Fresh {
        let samples = section.samples_per_client.unwrap_or_default();
        let beta = match section.kind {
            scenario::PartitionKind::Dirichlet { beta } => beta,
            // A label distribution from a very concentrated Dirichlet is the uniform one.
            scenario::PartitionKind::Iid => EVEN,
            _ => {
                return Err(ExperimentError::Unsupported(
                    "fresh clients draw their labels by `dirichlet` or `iid`; set partition.kind to one of them"
                        .into(),
                ));
            }
        };
        let law = FreshLaw::Dirichlet { beta, samples };
        return Ok(Holders::Fresh(FreshClients { law, seed: scenario.seed.partition }));
    }
    let kind = match section.kind {
        scenario::PartitionKind::Dirichlet { beta } => PartitionKind::Dirichlet { beta },
        scenario::PartitionKind::Iid => PartitionKind::Iid,
        scenario::PartitionKind::Quantity { classes_per_client } => {
            PartitionKind::Quantity { classes: classes_per_client as usize }
        }
        scenario::PartitionKind::Extended { beta, picks, picks_beta } => {
            PartitionKind::Extended { beta, reserve_beta: picks_beta, picks }
        }
    };
    Ok(Holders::Fixed(Partitioner {
        kind,
        clients,
        min_samples: section.min_samples,
        attempts: section.attempts,
        seed: scenario.seed.partition,
    }))
}

const EVEN: f64 = 1e6;

/// Training samples of every class id, without opening files; `None` where nobody knows.
pub fn nominal_class_sizes(scenario: &Scenario) -> Result<Option<Vec<usize>>, DataError> {
    let cap = |size: usize| scenario.data.subset.map_or(size, |most| size.min(most as usize));
    if scenario.data.source == DataSource::Digits {
        let sizes = digits::embedded()?.class_sizes();
        return Ok(Some(sizes.into_iter().map(cap).collect()));
    }
    let nominal = scenario::DataSection { subset: None, ..scenario.data.clone() };
    Ok(nominal.sizes().map(|sizes| {
        let (classes, train) = (sizes.classes as usize, sizes.train as usize);
        // Spread evenly: the first classes take one sample more where it does not divide.
        (0..classes).map(|c| cap(train / classes + usize::from(c < train % classes))).collect()
    }))
}

impl Holders {
    /// The shards of one task, of the samples of every class id; `None` for fresh clients.
    pub fn shards(
        &self,
        view: &TaskView,
        by_class: &[Vec<u32>],
    ) -> Result<Option<Vec<Shard>>, DataError> {
        match self {
            Holders::Fixed(partitioner) => partitioner.shards(view, by_class).map(Some),
            Holders::Fresh(_) => Ok(None),
        }
    }

    /// Samples per head row of every client of a task, from the sizes of classes alone.
    pub fn counts(
        &self,
        view: &Arc<TaskView>,
        class_sizes: &[usize],
    ) -> Result<TaskCounts, DataError> {
        Ok(match self {
            Holders::Fixed(partitioner) => TaskCounts::Fixed(
                partitioner
                    .counts(view, class_sizes)?
                    .into_iter()
                    .map(|counts| by_row(view, &counts))
                    .collect(),
            ),
            Holders::Fresh(fresh) => TaskCounts::Fresh(*fresh, Arc::clone(view)),
        })
    }
}

/// Samples per head row of the clients of one task.
pub enum TaskCounts {
    /// Drawn for all clients at once.
    Fixed(Vec<ClassCounts>),
    /// Drawn for a client when it is asked.
    Fresh(FreshClients, Arc<TaskView>),
}

impl TaskCounts {
    /// Those of one client.
    pub fn of(&self, client: ClientId, class_sizes: &[usize]) -> ClassCounts {
        match self {
            TaskCounts::Fixed(all) => all[client.index()].clone(),
            TaskCounts::Fresh(fresh, view) => {
                by_row(view, &fresh.counts(view, client, class_sizes))
            }
        }
    }
}

fn by_row(view: &TaskView, counts: &[u32]) -> ClassCounts {
    view.rows
        .clone()
        .zip(counts)
        .filter(|(_, count)| **count > 0)
        .map(|(row, count)| (row as u32, *count))
        .collect()
}
