//! Batches of a shard: shuffled and augmented for training, in order for everything else.
//!
//! ```
//! use fedcast::data::{digits, ClassPermutation, TaskSequence, Loader, TaskSizes, Transform};
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! use std::sync::Arc;
//! let digits = digits::embedded()?;
//! let task_sequence = Arc::new(TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(5))?);
//! let shard: fedcast::data::Shard = (0..40).collect();
//! let loader = Loader::new(digits.train.clone(), shard, task_sequence, Arc::new(Transform::default()));
//! let key = StreamKey::new(7, Domain::Shuffle).client(3);
//! let sizes: Vec<usize> = loader
//!     .epoch(0, 16, key, key.domain(Domain::Augment))
//!     .map(|batch| batch.map(|b| b.len()))
//!     .collect::<Result<_, _>>()?;
//! assert_eq!(sizes, [16, 16, 8]); // the last partial batch is kept
//! # Ok::<(), fedcast::data::DataError>(())
//! ```

use std::sync::Arc;

use super::prepared::Prepared;
use super::rows::ChosenRows;
use super::stack::View;
use super::transform::{Transform, Workspace};
use super::{Batch, DataError, SampleRows, Shard, Split, Stacked, TaskSequence};
use crate::numerics::distributions::shuffle;
use crate::numerics::streams::{Domain, StreamKey};

/// Shard of a split as batches: its images pass through a transform, its labels are head rows.
#[derive(Clone, Debug)]
pub struct Loader {
    split: Arc<Split>,
    shard: Shard,
    task_sequence: Arc<TaskSequence>,
    transform: Arc<Transform>,
    /// Rows that replace the samples' pixels, such as cached features.
    rows: Option<Arc<dyn SampleRows>>,
    /// Queries of the samples, added to their batches.
    queries: Option<Arc<dyn SampleRows>>,
}

impl Loader {
    /// Returns a loader; nothing is read until batches are requested.
    pub fn new(
        split: Arc<Split>,
        shard: Shard,
        task_sequence: Arc<TaskSequence>,
        transform: Arc<Transform>,
    ) -> Loader {
        Loader { split, shard, task_sequence, transform, rows: None, queries: None }
    }

    /// Returns the loader with rows in place of pixels: its batches are [`Batch::Features`]. Samples, order and labels
    /// do not change. The transform must be deterministic. Rows are read by the sample numbers of
    /// [`base`](Loader::base).
    pub fn with_rows(self, rows: Arc<dyn SampleRows>) -> Loader {
        Loader { rows: Some(self.of_base(rows)), ..self }
    }

    /// Returns the loader with a query for each sample: its batches are [`Batch::Queried`]. Queries are read by the
    /// sample numbers of [`base`](Loader::base).
    pub fn with_queries(self, queries: Arc<dyn SampleRows>) -> Loader {
        Loader { queries: Some(self.of_base(queries)), ..self }
    }

    fn of_base(&self, rows: Arc<dyn SampleRows>) -> Arc<dyn SampleRows> {
        let split = &self.split;
        match Arc::ptr_eq(split, &split.base()) {
            true => rows,
            false => Arc::new(ChosenRows { rows, split: Arc::clone(split) }),
        }
    }

    /// Returns the split that owns the pixels, and the samples' numbers there.
    ///
    /// Caches of values computed from pixels are keyed by these.
    pub fn base(&self) -> (Arc<Split>, Shard) {
        let base = self.split.base();
        match Arc::ptr_eq(&self.split, &base) {
            true => (base, Arc::clone(&self.shard)),
            false => (base, self.shard.iter().map(|sample| self.split.origin(*sample)).collect()),
        }
    }

    /// Returns the queries of its samples, if there are any.
    pub fn queries(&self) -> Option<&Arc<dyn SampleRows>> {
        self.queries.as_ref()
    }

    /// Returns the split it reads.
    pub fn split(&self) -> &Arc<Split> {
        &self.split
    }

    /// Returns the samples it reads.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Returns the transform of the images.
    pub fn transform(&self) -> &Arc<Transform> {
        &self.transform
    }

    /// Returns the number of samples per epoch.
    pub fn len(&self) -> usize {
        self.shard.len()
    }

    /// Returns true if the shard is empty.
    pub fn is_empty(&self) -> bool {
        self.shard.is_empty()
    }

    /// Returns the number of batches per epoch; the last one may be smaller.
    pub fn batches(&self, batch_size: usize) -> usize {
        self.shard.len().div_ceil(batch_size.max(1))
    }

    /// Returns the head rows of the samples, in shard order.
    pub fn labels(&self) -> Vec<u32> {
        self.shard.iter().map(|&i| self.row(i)).collect()
    }

    /// Returns the batches of one epoch in random order.
    ///
    /// The order is drawn at `shuffle_key.step(epoch)`, the augmentation of sample `i` at `augment_key` with the step
    /// made of `epoch` and `i`, so neither depends on the batch size.
    pub fn epoch(
        &self,
        epoch: u64,
        batch_size: usize,
        shuffle_key: StreamKey,
        augment_key: StreamKey,
    ) -> Batches<'_> {
        let mut order = self.shard.to_vec();
        shuffle(&mut shuffle_key.step(epoch).rng(), &mut order);
        self.batches_of(order, batch_size, epoch, augment_key)
    }

    /// Returns the batches of one pass in shard order, for deterministic transforms. A random transform would draw the
    /// same for every pass, see [`Loader::in_order_drawn`].
    pub fn in_order(&self, batch_size: usize) -> Batches<'_> {
        self.in_order_drawn(batch_size, StreamKey::new(0, Domain::Augment))
    }

    /// Returns the batches of one pass in shard order, with augmentation.
    ///
    /// Sample `i` draws it at `augment_key` as in an epoch that training does not use, so that it repeats no draw of
    /// training.
    pub fn in_order_drawn(&self, batch_size: usize, augment_key: StreamKey) -> Batches<'_> {
        const OWN_EPOCH: u64 = u32::MAX as u64;
        self.batches_of(self.shard.to_vec(), batch_size, OWN_EPOCH, augment_key)
    }

    /// Returns the batches of one pass in shard order, augmented as in the given epoch.
    ///
    /// Sample `i` draws its augmentation at `augment_key` as in [`epoch`](Loader::epoch).
    pub fn epoch_in_order(
        &self,
        epoch: u64,
        batch_size: usize,
        augment_key: StreamKey,
    ) -> Batches<'_> {
        self.batches_of(self.shard.to_vec(), batch_size, epoch, augment_key)
    }

    fn batches_of(
        &self,
        order: Vec<u32>,
        batch_size: usize,
        epoch: u64,
        augment_key: StreamKey,
    ) -> Batches<'_> {
        Batches {
            prepared: if self.rows.is_some() { None } else { self.split.prepared(&self.transform) },
            loader: self,
            order,
            next: 0,
            batch_size: batch_size.max(1),
            epoch,
            augment_key,
            workspace: Workspace::default(),
        }
    }

    fn row(&self, sample: u32) -> u32 {
        self.task_sequence.row_of(self.split.labels()[sample as usize])
    }
}

/// Iterator over the batches of one pass; ends after the first error.
#[derive(Debug)]
pub struct Batches<'a> {
    loader: &'a Loader,
    prepared: Option<Arc<Prepared>>,
    order: Vec<u32>,
    next: usize,
    batch_size: usize,
    epoch: u64,
    augment_key: StreamKey,
    workspace: Workspace,
}

impl Batches<'_> {
    fn read(&mut self, samples: &[u32]) -> Result<Batch, DataError> {
        let inputs = self.read_inputs(samples)?;
        let Some(rows) = &self.loader.queries else { return Ok(inputs) };
        let mut queries = Vec::new();
        samples.iter().try_for_each(|sample| rows.read(*sample, &mut queries))?;
        Ok(Batch::Queried { inputs: Box::new(inputs), queries })
    }

    fn read_inputs(&mut self, samples: &[u32]) -> Result<Batch, DataError> {
        let Loader { split, transform, rows, .. } = self.loader;
        let labels = samples.iter().map(|&i| self.loader.row(i)).collect();
        let samples = samples.to_vec();
        if let Some(rows) = rows {
            let mut values = Vec::new();
            samples.iter().try_for_each(|sample| rows.read(*sample, &mut values))?;
            let shape = [&[samples.len()], rows.shape()].concat();
            return Ok(Batch::Features { values, shape, labels, samples });
        }
        if let Some(tokens) = split.tokens(&samples) {
            let shape = [samples.len(), tokens.len() / samples.len().max(1)];
            return Ok(Batch::Tokens { tokens, shape, labels, samples });
        }
        if let Some((pixels, width)) = split.rows(&samples) {
            let shape = [samples.len(), width, 1, 1];
            return Ok(Batch::Images { pixels, shape, labels, samples });
        }
        let view = View { split, transform, prepared: self.prepared.as_deref() };
        let (augment, epoch) = (self.augment_key, self.epoch << 32);
        let key = |sample: u32| augment.step(epoch | u64::from(sample));
        let Stacked { pixels, shape } = view.stack(&samples, &mut self.workspace, key)?;
        Ok(Batch::Images { pixels, shape, labels, samples })
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = (self.next + self.batch_size).min(self.order.len());
        if self.next >= end {
            return None;
        }
        let samples = self.order[self.next..end].to_vec();
        let batch = self.read(&samples);
        self.next = if batch.is_ok() { end } else { self.order.len() };
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassPermutation, Kernel, Step, TaskSizes, digits};

    fn loader(order: ClassPermutation, steps: Vec<Step>, shard: Vec<u32>) -> Loader {
        let digits = digits::embedded().unwrap();
        let task_sequence = TaskSequence::new(10, &order, &TaskSizes::Even(5)).unwrap();
        let transform = Transform { steps, ..Transform::default() };
        Loader::new(digits.train, shard.into(), Arc::new(task_sequence), Arc::new(transform))
    }

    fn keys() -> (StreamKey, StreamKey) {
        let key = StreamKey::new(5, Domain::Shuffle).round(2).client(1);
        (key, key.domain(Domain::Augment))
    }

    /// `(sample, label, pixels)` of every sample of a pass.
    fn samples(batches: Batches<'_>) -> Vec<(u32, u32, Vec<f32>)> {
        let mut all = Vec::new();
        for batch in batches {
            let Batch::Images { pixels, shape, labels, samples } = batch.unwrap() else { panic!() };
            let size = shape[1] * shape[2] * shape[3];
            for (k, image) in pixels.chunks_exact(size).enumerate() {
                all.push((samples[k], labels[k], image.to_vec()));
            }
        }
        all
    }

    #[test]
    fn an_epoch_is_a_permutation_that_changes_with_the_epoch() {
        let loader = loader(ClassPermutation::Native, vec![], (0..50).map(|i| i * 3).collect());
        let (shuffle, augment) = keys();
        let order = |epoch| -> Vec<u32> {
            samples(loader.epoch(epoch, 16, shuffle, augment)).into_iter().map(|s| s.0).collect()
        };
        assert_eq!(order(0), order(0));
        assert_ne!(order(0), order(1));
        let mut sorted = order(4);
        sorted.sort_unstable();
        assert_eq!(sorted, loader.shard.to_vec());
        assert_eq!(loader.epoch(0, 16, shuffle, augment).count(), loader.batches(16));
    }

    #[test]
    fn augmentation_depends_on_the_sample_and_epoch_only() {
        let steps = vec![Step::RandomCrop { side: 8, padding: 2 }, Step::Flip { probability: 0.5 }];
        let (shuffle, augment) = keys();
        let whole = loader(ClassPermutation::Native, steps.clone(), (0..30).collect());
        let part = loader(ClassPermutation::Native, steps, (10..20).collect());
        let mut a = samples(whole.epoch(3, 7, shuffle, augment));
        a.retain(|(i, ..)| (10..20).contains(i));
        let mut b = samples(part.epoch(3, 4, shuffle.client(9), augment));
        a.sort_by_key(|s| s.0);
        b.sort_by_key(|s| s.0);
        assert_eq!(a, b);
        let mut later = samples(part.epoch(4, 4, shuffle, augment));
        later.sort_by_key(|s| s.0);
        assert_ne!(b, later);
    }

    #[test]
    fn labels_are_head_rows() {
        let loader = loader(ClassPermutation::Seeded(1), vec![], (0..30).collect());
        let rows = loader.labels();
        for (sample, row, _) in samples(loader.in_order(8)) {
            let class = loader.split.labels()[sample as usize];
            assert_eq!(loader.task_sequence.order[row as usize], class);
            assert_eq!(rows[sample as usize], row);
        }
    }

    #[test]
    fn prepared_pixels_equal_fresh_ones() {
        let steps = vec![Step::Resize { side: 16, kernel: Kernel::Antialias }];
        let fast = loader(ClassPermutation::Native, steps.clone(), (0..30).collect());
        assert!(fast.split.prepared(&fast.transform).is_some());
        let mut digits = digits::embedded().unwrap();
        Arc::get_mut(&mut digits.train).unwrap().set_prepared_budget(1_000);
        let slow = Loader { split: digits.train, ..fast.clone() };
        assert!(slow.split.prepared(&slow.transform).is_none());
        assert_eq!(samples(fast.in_order(7)), samples(slow.in_order(30)));
    }
}
