//! Data set in which each class of each client task is a separate class.

use std::sync::Arc;

use super::{ClientTask, ClientTasks, SliceBy};
use crate::data::{DataError, Dataset, Shard, Split};
use crate::numerics::share::floor;
use crate::quantity::{ClientId, TaskId};

impl ClientTasks {
    /// Returns the number of training images of every head row.
    ///
    /// `sizes` are the class sizes of the original data set.
    ///
    /// Head rows of a client task that never begins have none.
    pub fn class_sizes(&self, sizes: &[usize]) -> Vec<usize> {
        let of = |row: usize| self.slice(row, sizes[self.class_at(row) as usize]).len();
        (0..self.rows()).map(of).collect()
    }

    /// Returns the range of a class's `samples` training images that belongs to this head row.
    fn slice(&self, row: usize, samples: usize) -> std::ops::Range<usize> {
        if !self.begins_at(row) {
            return 0..0;
        }
        let slice = self.slice_of(self.client_task(row / self.rules.classes)) % self.rules.slices();
        let end =
            |slices: usize| floor(slices as f64 * self.rules.share * samples as f64).min(samples);
        end(slice)..end(slice + 1)
    }

    /// Returns the number of the slice that a client task gets, before it wraps around.
    fn slice_of(&self, client_task: ClientTask) -> usize {
        match self.rules.slices {
            SliceBy::Stage => client_task.stage.index(),
            SliceBy::ClientTask => {
                client_task.client.index() * self.rules.stages + client_task.stage.index()
            }
            SliceBy::Client => client_task.client.index(),
        }
    }

    /// Returns the samples of every client's own client task in a stage; a task that never begins has none.
    pub(crate) fn shards(&self, stage: TaskId, dataset: &Dataset) -> Vec<Shard> {
        let by_class = dataset.train.by_class();
        let of = |client: u32| {
            let client_task = ClientTask { stage, client: ClientId(client) };
            let rows = self.view(client_task).rows.clone();
            let mut samples: Vec<u32> = by_class[rows].concat();
            samples.sort_unstable();
            Shard::from(samples)
        };
        (0..self.rules.clients).map(of).collect()
    }
}

impl Dataset {
    /// Returns the data set of the client tasks, whose class ids are head rows. An image occurs once for every client
    /// task that has it, client tasks that never begin are empty, and class names are those of the original.
    ///
    /// # Errors
    /// Returns an error if the client tasks were drawn for another data set.
    pub fn for_client_tasks(&self, client_tasks: &ClientTasks) -> Result<Dataset, DataError> {
        let classes = self.classes();
        if let Some(class) = client_tasks.classes.iter().find(|class| **class as usize >= classes) {
            return Err(DataError::unfit(
                format!("client tasks have class {class}, but the data set has {classes} classes"),
                "draw the client tasks for this data set",
            ));
        }
        let split = |split: &Arc<Split>, test: bool| {
            let (mut samples, mut labels) = (Vec::new(), Vec::new());
            for row in 0..client_tasks.rows() {
                let all = &split.by_class()[client_tasks.class_at(row) as usize];
                let chosen = match (client_tasks.begins_at(row), test) {
                    (false, _) => &[][..],
                    (true, true) => all,
                    (true, false) => &all[client_tasks.slice(row, all.len())],
                };
                samples.extend_from_slice(chosen);
                labels.extend(chosen.iter().map(|_| row as u32));
            }
            Split::chosen(split, samples, labels, client_tasks.rows()).map(Arc::new)
        };
        let name = |row: usize| self.class_names[client_tasks.class_at(row) as usize].clone();
        Ok(Dataset {
            name: self.name.clone(),
            class_names: (0..client_tasks.rows()).map(name).collect(),
            train: split(&self.train, false)?,
            test: split(&self.test, true)?,
            notes: self.notes.clone(),
        })
    }
}

impl ClientTasks {
    /// Returns true if the client task of a head row is ever begun.
    fn begins_at(&self, row: usize) -> bool {
        self.begins(self.client_task(row / self.rules.classes))
    }
}
