//! The lab: all that a policy may touch. No files, no clocks, no threads, no actors.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{ClassCounts, PolicyError, Predictor, RoundContext, Seat};
use crate::data::{
    Batch, Curriculum, Dataset, FreshClients, Loader, SampleRows, Shard, Stacked, Transform,
};
use crate::learning::{FeatureCache, FeatureStore, TrainingPlan};
use crate::model::{Backbone, FrozenPart, Place};

/// Device, frozen backbone, data and the local training plan of a run.
///
/// Cloning is cheap; every worker owns one.
#[derive(Clone)]
pub struct Lab {
    /// Where tensors live.
    pub device: Device,
    /// The backbone as loaded, frozen.
    pub backbone: Arc<Backbone>,
    /// The data set; shards index its train split.
    pub dataset: Arc<Dataset>,
    /// Class order and tasks.
    pub curriculum: Arc<Curriculum>,
    /// Augmentation of local training.
    pub train_transform: Arc<Transform>,
    /// Transform of statistics passes (prototypes, Gaussians).
    pub statistics_transform: Arc<Transform>,
    /// Epochs, batch size, optimiser and clipping of local training, from `[client]`; a client's lab holds
    /// the learning rate of its round.
    pub training: TrainingPlan,
    /// Samples per block in passes without gradient.
    pub evaluation_batch: usize,
    /// What the frozen backbone gave for samples already seen; shared by all workers.
    pub cache: Arc<FeatureCache>,
    /// Features frozen by the first of two staged methods.
    pub staged: Option<Arc<dyn Predictor>>,
    /// Who knows what clients report where that is not what they hold
    /// ([`FreshClients::reported`]).
    pub reported: Option<FreshClients>,
}

impl Lab {
    /// The same with the learning rate of a round, for the clients that train in it.
    pub fn in_round(&self, round: &RoundContext) -> Lab {
        let (now, of) = (round.round_in_phase, round.rounds_in_phase);
        Lab { training: self.training.in_round(now, of), ..self.clone() }
    }

    /// Shuffled, augmented batches of a shard.
    pub fn train_loader(&self, shard: &Shard) -> Loader {
        Loader::new(
            Arc::clone(&self.dataset.train),
            Arc::clone(shard),
            Arc::clone(&self.curriculum),
            Arc::clone(&self.train_transform),
        )
    }

    /// In-order batches of a shard for passes without gradient.
    pub fn statistics_loader(&self, shard: &Shard) -> Loader {
        Loader::new(
            Arc::clone(&self.dataset.train),
            Arc::clone(shard),
            Arc::clone(&self.curriculum),
            Arc::clone(&self.statistics_transform),
        )
    }

    /// How many samples of which head row a seat says it has: those of its shard, unless the partition
    /// says otherwise.
    pub fn label_counts(&self, seat: &Seat, shard: &Shard) -> ClassCounts {
        let said = self
            .reported
            .as_ref()
            .and_then(|fresh| fresh.reported(&seat.view, seat.client, &self.dataset.class_sizes()));
        let mut counts = ClassCounts::new();
        match said {
            Some(said) => counts.extend(seat.view.rows.clone().map(|row| row as u32).zip(said)),
            None => shard.iter().for_each(|sample| {
                let class = self.dataset.train.labels()[*sample as usize];
                *counts.entry(self.curriculum.row_of(class)).or_default() += 1;
            }),
        }
        counts.retain(|_, count| *count > 0);
        counts
    }

    /// This lab at another place, with a copy of the backbone there; what a worker of a GPU starts
    /// with. Features frozen by an earlier method are placed when they are asked.
    pub fn at(&self, place: &Place) -> Result<Lab, PolicyError> {
        if self.backbone.place().same(place) && self.device.same_device(&place.device) {
            return Ok(self.clone());
        }
        let backbone = Arc::new(self.backbone.at(place)?);
        Ok(Lab { device: place.device.clone(), backbone, ..self.clone() })
    }

    /// The same loader with the outputs of the backbone's frozen `part` in place of pixels; what is
    /// missing of them is computed first. Where nothing is kept, as under a transform that draws, it comes
    /// back as it is: ask for `batch_features` or `batch_scores`, which take both.
    pub fn frozen(&self, loader: Loader, part: FrozenPart) -> Result<Loader, PolicyError> {
        if let FrozenPart::Adapted(_) = part {
            return Ok(loader);
        }
        let Some(store) = self.store(&loader, part)? else { return Ok(loader) };
        store.fill(&self.backbone, &self.device, loader.shard())?;
        Ok(loader.with_rows(store))
    }

    /// Queries of prompt methods, `(batch, dim)`: the unprompted backbone's features of the samples of
    /// `batch` as `loader` sees them. Where its transform draws nothing they are the rows of
    /// [`frozen`](Lab::frozen), computed once per sample, whatever `batch` itself holds; where it draws,
    /// `batch` is one of its own, and queries are those of its pixels.
    pub fn queries(&self, loader: &Loader, batch: &Batch) -> Result<Tensor, PolicyError> {
        let (split, transform, part) = (loader.split(), loader.transform(), FrozenPart::Whole);
        if !transform.is_deterministic() {
            return Ok(self.backbone.frozen(&self.pixels(batch)?, part)?);
        }
        let samples = batch.samples();
        let Some(store) = self.cache.store(&self.backbone, split, transform, part)? else {
            let Stacked { pixels, shape } = split.pixels(transform, samples)?;
            let pixels = Tensor::from_vec(pixels, shape.as_slice(), &self.device)?;
            return Ok(self.backbone.frozen(&pixels, part)?);
        };
        store.fill(&self.backbone, &self.device, samples)?;
        let mut rows = Vec::with_capacity(samples.len() * self.backbone.dim());
        samples.iter().try_for_each(|sample| store.read(*sample, &mut rows))?;
        Ok(Tensor::from_vec(rows, (samples.len(), self.backbone.dim()), &self.device)?)
    }

    /// [`frozen`](Lab::frozen) for what `predictor` answers from: where an earlier method adapted the
    /// backbone and froze it, its features are kept as well.
    pub fn frozen_of(
        &self,
        loader: Loader,
        predictor: &dyn Predictor,
    ) -> Result<Loader, PolicyError> {
        let part = predictor.frozen_part();
        let FrozenPart::Adapted(_) = part else { return self.frozen(loader, part) };
        let Some(store) = self.store(&loader, part)? else { return Ok(loader) };
        let rows = |pixels: &Tensor| predictor.features(pixels);
        store.fill_with(&rows, &self.device, loader.shard())?;
        Ok(loader.with_rows(store))
    }

    fn store(
        &self,
        loader: &Loader,
        part: FrozenPart,
    ) -> Result<Option<Arc<FeatureStore>>, PolicyError> {
        let (split, transform) = (loader.split(), loader.transform());
        Ok(self.cache.store(&self.backbone, split, transform, part)?)
    }

    /// A batch's pixels on this lab's device, `(batch, channels, height, width)`.
    pub fn pixels(&self, batch: &Batch) -> Result<Tensor, PolicyError> {
        batch.pixels(&self.device).map_err(PolicyError::from)
    }
}
