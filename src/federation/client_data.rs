//! Data of clients: samples, or only counts by class.
//!
//! A run that is computed looks at samples; one that is only sized knows only counts. Cohorts, the duration of work and
//! the size of messages follow from counts, so both ask the same questions.

use std::sync::Arc;

use crate::data::{Dataset, FreshClients, Shard, TaskSequence, TaskView, Transform};
use crate::policy::ClassCounts;
use crate::quantity::ClientId;

/// Samples of every client.
#[derive(Clone, Debug)]
pub enum ShardSource {
    /// Drawn beforehand: one list per task, one shard per client.
    Drawn(Vec<Vec<Shard>>),
    /// Made when a client of a fresh population is sampled.
    Fresh(FreshClients),
}

/// Number of samples of every client, by head row.
#[derive(Clone, Debug)]
pub enum LabelCountSource {
    /// Drawn beforehand: one list per task, the counts of one client each.
    Drawn(Vec<Vec<ClassCounts>>),
    /// Drawn when a client of a fresh population is sampled.
    Fresh {
        /// The population.
        clients: FreshClients,
        /// Training samples of every class id.
        class_sizes: Vec<usize>,
    },
}

impl LabelCountSource {
    /// Returns a client's label counts of a task, by head row.
    pub(super) fn counts(&self, view: &TaskView, client: ClientId) -> ClassCounts {
        match self {
            LabelCountSource::Drawn(drawn) => drawn[view.task.index()][client.index()].clone(),
            LabelCountSource::Fresh { clients, class_sizes } => {
                by_row(view, &clients.counts(view, client, class_sizes))
            }
        }
    }

    fn samples(&self, view: &TaskView, client: ClientId) -> usize {
        match self {
            LabelCountSource::Drawn(drawn) => sum(&drawn[view.task.index()][client.index()]),
            LabelCountSource::Fresh { .. } => sum(&self.counts(view, client)),
        }
    }
}

/// Data of the clients of a run.
#[derive(Clone)]
pub(super) enum ClientData {
    Samples(Samples),
    Counts(LabelCountSource),
}

/// The data of a run that is computed.
#[derive(Clone)]
pub(super) struct Samples {
    pub dataset: Arc<Dataset>,
    pub shards: ShardSource,
    /// Transform of test samples.
    pub test_transform: Arc<Transform>,
}

impl ClientData {
    /// Returns the number of clients whose data were drawn beforehand, per task.
    ///
    /// `None` if they are drawn on request.
    pub fn drawn(&self) -> Option<Vec<usize>> {
        match self {
            ClientData::Samples(Samples { shards: ShardSource::Drawn(drawn), .. }) => {
                Some(drawn.iter().map(Vec::len).collect())
            }
            ClientData::Counts(LabelCountSource::Drawn(drawn)) => {
                Some(drawn.iter().map(Vec::len).collect())
            }
            _ => None,
        }
    }

    /// Returns the samples.
    ///
    /// # Panics
    /// In a run that is only sized: it computes nothing, and nothing else needs a sample.
    pub fn data(&self) -> &Samples {
        match self {
            ClientData::Samples(samples) => samples,
            ClientData::Counts(_) => panic!("a run that is only sized has no samples"),
        }
    }

    /// Returns a client's samples of a task.
    ///
    /// # Panics
    /// As [`ClientData::data`].
    pub fn shard(&self, view: &TaskView, client: ClientId) -> Shard {
        let Samples { dataset, shards, .. } = self.data();
        match shards {
            ShardSource::Drawn(drawn) => Arc::clone(&drawn[view.task.index()][client.index()]),
            ShardSource::Fresh(fresh) => fresh.shard(view, client, dataset.train.by_class()),
        }
    }

    /// Returns the number of a client's samples of a task.
    pub fn samples(&self, view: &TaskView, client: ClientId) -> usize {
        match self {
            ClientData::Samples(_) => self.shard(view, client).len(),
            ClientData::Counts(source) => source.samples(view, client),
        }
    }

    /// Returns the number of samples of a shard by head row.
    pub fn counts_of(&self, task_sequence: &TaskSequence, shard: &Shard) -> ClassCounts {
        let labels = self.data().dataset.train.labels();
        let mut counts = ClassCounts::new();
        for sample in shard.iter() {
            *counts.entry(task_sequence.row_of(labels[*sample as usize])).or_default() += 1;
        }
        counts
    }
}

/// Returns the counts of a task's classes by head row; rows without a sample are left out.
pub fn by_row(view: &TaskView, counts: &[u32]) -> ClassCounts {
    let rows = view.rows.clone().map(|row| row as u32);
    rows.zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
}

/// Returns the total number of samples.
pub(super) fn sum(counts: &ClassCounts) -> usize {
    counts.values().map(|count| *count as usize).sum()
}
