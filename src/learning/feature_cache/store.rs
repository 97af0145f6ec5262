//! Features of one split under one transform, computed block by block and each block once.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use candle_core::{DType, Device, Tensor};

use super::blocks::Blocks;
use super::counts::CacheCounts;
use super::file::{BlockState, CacheFile};
use super::key::NetworkKey;
use crate::data::{DataError, SampleRows, Split, Transform};
use crate::learning::LearningError;
use crate::model::{Backbone, FrozenPart};

/// Source of stored values: the frozen part, the samples and their transform.
#[derive(Clone, Debug)]
pub(super) struct FeatureSource {
    pub network: NetworkKey,
    pub split: Arc<Split>,
    pub transform: Arc<Transform>,
    pub part: FrozenPart,
}

/// Returns the shape of the stored values of one sample.
pub(super) fn row_shape(backbone: &Backbone, part: FrozenPart) -> Vec<usize> {
    match (part, backbone.vit()) {
        (FrozenPart::Below(_), Some(vit)) => vec![vit.config().tokens(), vit.config().dim],
        _ => vec![backbone.dim()],
    }
}

impl FeatureSource {
    fn compute<E: From<LearningError>>(
        &self,
        rows: &impl Fn(&Tensor) -> Result<Tensor, E>,
        device: &Device,
        samples: &[u32],
    ) -> Result<Box<[f32]>, E> {
        let input = self.split.input(&self.transform, samples, device);
        let found = rows(&input.map_err(LearningError::from)?)?;
        let flat = found.flatten_all().and_then(|flat| flat.to_dtype(DType::F32)?.to_vec1::<f32>());
        Ok(flat.map_err(LearningError::from)?.into())
    }
}

/// Location of the values of a finished block.
#[derive(Debug)]
enum StoreEntry {
    Memory(Box<[f32]>),
    File,
}

/// Output of one part of a frozen network for every sample of a split.
///
/// [`fill`](FeatureStore::fill) computes what is missing; several threads may ask at once, and each block
/// is computed by one of them. Afterwards rows are read without waiting.
#[derive(Debug)]
pub struct FeatureStore {
    source: FeatureSource,
    shape: Vec<usize>,
    blocks: Blocks,
    kept: Vec<OnceLock<StoreEntry>>,
    /// File with the values; `None` keeps them in memory.
    file: Option<CacheFile>,
    /// Blocks that a thread is computing.
    busy: Mutex<BTreeSet<usize>>,
    done: Condvar,
    counts: Mutex<CacheCounts>,
    /// Number of rows read, kept separately as it changes with every read.
    read: AtomicU64,
}

impl FeatureStore {
    pub(super) fn new(
        source: FeatureSource,
        shape: Vec<usize>,
        blocks: Blocks,
        file: Option<CacheFile>,
    ) -> FeatureStore {
        FeatureStore {
            shape,
            kept: (0..blocks.len()).map(|_| OnceLock::new()).collect(),
            source,
            blocks,
            file,
            busy: Mutex::default(),
            done: Condvar::new(),
            counts: Mutex::default(),
            read: AtomicU64::new(0),
        }
    }

    /// Makes sure that the rows of these samples can be read. Missing ones are computed with `backbone`, which must
    /// equal the network of the store.
    ///
    /// # Errors
    /// Returns an error if a sample cannot be read, the network fails, or a file cannot be written.
    pub fn fill(
        &self,
        backbone: &Backbone,
        device: &Device,
        samples: &[u32],
    ) -> Result<(), LearningError> {
        let rows = |pixels: &Tensor| -> Result<Tensor, LearningError> {
            Ok(backbone.frozen(pixels, self.source.part)?)
        };
        self.fill_with(&rows, device, samples)
    }

    /// Runs [`fill`](FeatureStore::fill) with a function from a batch of pixels to rows. It serves networks that are
    /// more than a backbone.
    ///
    /// # Errors
    /// Fails as [`fill`](FeatureStore::fill) does, or if `rows` fails.
    pub fn fill_with<E: From<LearningError>>(
        &self,
        rows: &impl Fn(&Tensor) -> Result<Tensor, E>,
        device: &Device,
        samples: &[u32],
    ) -> Result<(), E> {
        let wanted: BTreeSet<usize> = samples.iter().map(|s| self.blocks.place(*s).0).collect();
        let mut missing: Vec<usize> = wanted.into_iter().filter(|b| !self.has(*b)).collect();
        while !missing.is_empty() {
            if let Some(claim) = self.claim_or_wait(&missing) {
                let kept = self.make(rows, device, claim.block)?;
                // No other thread sets it, as the block is claimed.
                let _ = self.kept[claim.block].set(kept);
            }
            missing.retain(|block| !self.has(*block));
        }
        Ok(())
    }

    /// Returns the metrics of the store so far.
    pub fn counts(&self) -> CacheCounts {
        let counted = *self.counts.lock();
        CacheCounts { read: self.read.load(Ordering::Relaxed), ..counted }
    }

    pub(super) fn samples(&self) -> u64 {
        self.blocks.total() as u64
    }

    pub(super) fn source(&self) -> &FeatureSource {
        &self.source
    }

    fn has(&self, block: usize) -> bool {
        self.kept[block].get().is_some()
    }

    /// Claims the first missing block that no thread computes. If there is none, waits until another thread has
    /// finished one, and returns `None`.
    fn claim_or_wait(&self, missing: &[usize]) -> Option<Claim<'_>> {
        let mut busy = self.busy();
        // A block is stored before it leaves `busy`, so one of the two is always true.
        if let Some(&block) = missing.iter().find(|b| !busy.contains(b) && !self.has(**b)) {
            busy.insert(block);
            return Some(Claim { store: self, block });
        }
        if missing.iter().all(|block| busy.contains(block)) {
            self.done.wait(&mut busy);
        }
        None
    }

    fn make<E: From<LearningError>>(
        &self,
        rows: &impl Fn(&Tensor) -> Result<Tensor, E>,
        device: &Device,
        block: usize,
    ) -> Result<StoreEntry, E> {
        let samples = self.blocks.samples(block);
        let count = samples.len() as u64;
        match self.file.as_ref().map(|file| file.holds(&self.blocks, block)) {
            Some(BlockState::Whole) => {
                self.count(CacheCounts { loaded: count, ..CacheCounts::default() });
                return Ok(StoreEntry::File);
            }
            Some(BlockState::Damaged) => {
                self.count(CacheCounts { damaged: count, ..CacheCounts::default() });
            }
            Some(BlockState::Empty) | None => {}
        }
        let start = Instant::now();
        let values = self.source.compute(rows, device, samples)?;
        let compute_s = start.elapsed().as_secs_f64();
        self.count(CacheCounts { computed: count, compute_s, ..CacheCounts::default() });
        Ok(match &self.file {
            None => StoreEntry::Memory(values),
            Some(file) => {
                file.put(&self.blocks, block, &values).map_err(LearningError::from)?;
                StoreEntry::File
            }
        })
    }

    fn count(&self, more: CacheCounts) {
        let mut counts = self.counts.lock();
        *counts = counts.plus(more);
    }

    fn busy(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.busy.lock()
    }
}

/// Claim to a block that is being computed. It ends when dropped, also after a failure.
struct Claim<'a> {
    store: &'a FeatureStore,
    block: usize,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.store.busy().remove(&self.block);
        self.store.done.notify_all();
    }
}

impl SampleRows for FeatureStore {
    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn read(&self, sample: u32, out: &mut Vec<f32>) -> Result<(), DataError> {
        let (block, row) = self.blocks.place(sample);
        let width: usize = self.shape.iter().product();
        match (self.kept[block].get(), &self.file) {
            (Some(StoreEntry::Memory(values)), _) => {
                out.extend(&values[row * width..(row + 1) * width])
            }
            (Some(StoreEntry::File), Some(file)) => file.read(&self.blocks, block, row, out)?,
            _ => {
                return Err(DataError::unfit(
                    format!("the features of sample {sample} have not been computed"),
                    "fill the store before reading from it",
                ));
            }
        }
        self.read.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
