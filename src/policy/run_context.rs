//! The run context: all that a policy may touch. No files, no clocks, no threads, no actors.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{
    ClassCounts, ModelFacts, Participant, PolicyError, Predictor, RoundContext, Scope, WireForm,
};
use crate::data::{
    Auxiliary, Batch, Dataset, FreshClients, HeldRows, Loader, SampleRows, Shard, Split,
    TaskSequence, Transform,
};
use crate::learning::evaluation::evaluate;
use crate::learning::{FeatureCache, FeatureStore, QueryView, StepCount, TrainingPlan};
use crate::model::{Backbone, DeviceSpec, FrozenPart};

/// Device, frozen backbone, data and the local training plan of a run.
///
/// Cloning is cheap; every worker owns one.
#[derive(Clone)]
pub struct RunContext {
    /// Device of all tensors.
    pub device: Device,
    /// The backbone as loaded, frozen.
    pub backbone: Arc<Backbone>,
    /// The data set; shards index its train split.
    pub dataset: Arc<Dataset>,
    /// Class order and tasks.
    pub task_sequence: Arc<TaskSequence>,
    /// Augmentation of local training.
    pub train_transform: Arc<Transform>,
    /// Transform of statistics passes (prototypes, Gaussians).
    pub statistics_transform: Arc<Transform>,
    /// Epochs, batch size, optimizer and clipping of local training, from `[client]`.
    ///
    /// The context of a client holds the learning rate of its round.
    pub training: TrainingPlan,
    /// Samples per block in passes without gradient.
    pub evaluation_batch: usize,
    /// Outputs of the frozen backbone for samples already seen; shared by all workers.
    pub cache: Arc<FeatureCache>,
    /// Steps of long work at the server, for progress alone; shared by all workers.
    pub server_steps: Arc<StepCount>,
    /// Features frozen by the first of two composed methods.
    pub first_method: Option<Arc<dyn Predictor>>,
    /// Samples that belong to no client, where the run has any.
    pub auxiliary: Option<Arc<Auxiliary>>,
    /// Source of the label counts that clients report, if they are not those of their shards.
    ///
    /// See [`FreshClients::reported`].
    pub reported: Option<FreshClients>,
}

impl RunContext {
    /// Creates a context on the CPU with untransformed images and default training and feature cache.
    ///
    /// A program that builds a federation by hand begins with it; a scenario sets everything itself.
    pub fn new(
        backbone: impl Into<Arc<Backbone>>,
        dataset: impl Into<Arc<Dataset>>,
        task_sequence: impl Into<Arc<TaskSequence>>,
    ) -> RunContext {
        let transform = Arc::new(Transform::default());
        RunContext {
            device: Device::Cpu,
            backbone: backbone.into(),
            dataset: dataset.into(),
            task_sequence: task_sequence.into(),
            train_transform: Arc::clone(&transform),
            statistics_transform: transform,
            training: TrainingPlan::default(),
            evaluation_batch: 64,
            cache: Arc::default(),
            server_steps: Arc::default(),
            first_method: None,
            auxiliary: None,
            reported: None,
        }
    }

    /// Returns the facts of the model that are known before any weight is read: full messages, `clients` clients.
    pub fn facts(&self, clients: u32) -> ModelFacts {
        ModelFacts {
            backbone: self.backbone.config(),
            classes: self.task_sequence.classes(),
            tasks: self.task_sequence.tasks.len(),
            clients: clients as usize,
            form: WireForm::Full,
            auxiliary: None,
        }
    }

    /// Returns a copy with the learning rate of a round, for the clients that train in it.
    pub fn in_round(&self, round: &RoundContext) -> RunContext {
        self.at_round(round.round_in_phase, round.rounds_in_phase)
    }

    /// Returns a copy with the learning rate of round `now` of `of` in the phase.
    pub fn at_round(&self, now: u32, of: u32) -> RunContext {
        RunContext { training: self.training.in_round(now, of), ..self.clone() }
    }

    /// Returns shuffled, augmented batches of a shard.
    pub fn train_loader(&self, shard: &Shard) -> Loader {
        Loader::new(
            Arc::clone(&self.dataset.train),
            Arc::clone(shard),
            Arc::clone(&self.task_sequence),
            Arc::clone(&self.train_transform),
        )
    }

    /// Returns in-order batches of a shard for passes without gradient.
    pub fn statistics_loader(&self, shard: &Shard) -> Loader {
        Loader::new(
            Arc::clone(&self.dataset.train),
            Arc::clone(shard),
            Arc::clone(&self.task_sequence),
            Arc::clone(&self.statistics_transform),
        )
    }

    /// Returns in-order batches of the samples' mirror images, or `None` if samples are no images.
    pub fn mirror_loader(&self, shard: &Shard) -> Option<Loader> {
        let transform = Arc::new(self.statistics_transform.mirrored());
        let (train, task_sequence) =
            (Arc::clone(&self.dataset.train), Arc::clone(&self.task_sequence));
        let images = train.has_pixels();
        images.then(|| Loader::new(train, Arc::clone(shard), task_sequence, transform))
    }

    /// Returns the label counts that a participant reports, by head row.
    ///
    /// They are those of its shard unless the partition defines others.
    pub fn reported_label_counts(&self, participant: &Participant, shard: &Shard) -> ClassCounts {
        let said = self.reported.as_ref().and_then(|fresh| {
            fresh.reported(&participant.view, participant.client, &self.dataset.class_sizes())
        });
        let Some(said) = said else { return self.shard_label_counts(shard) };
        let rows = participant.view.rows.clone().map(|row| row as u32);
        rows.zip(said).filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the number of samples of a shard by head row.
    pub fn shard_label_counts(&self, shard: &Shard) -> ClassCounts {
        let mut counts = ClassCounts::new();
        for sample in shard.iter() {
            let class = self.dataset.train.labels()[*sample as usize];
            *counts.entry(self.task_sequence.row_of(class)).or_default() += 1;
        }
        counts
    }

    /// Returns this context on another device, with a copy of the backbone there.
    ///
    /// Each worker of a GPU starts with one.
    ///
    /// Features frozen by an earlier method are placed when they are used.
    pub fn to_device(&self, place: &DeviceSpec) -> Result<RunContext, PolicyError> {
        if self.backbone.place().same(place) && self.device.same_device(&place.device) {
            return Ok(self.clone());
        }
        let backbone = Arc::new(self.backbone.to_device(place)?);
        Ok(RunContext { device: place.device.clone(), backbone, ..self.clone() })
    }

    /// Returns the loader with outputs of the backbone's frozen `part` in place of pixels.
    ///
    /// Missing outputs are computed first. If nothing is kept, as with a transform that draws, the loader comes back
    /// unchanged: use `batch_features` or `batch_scores`, which accept both.
    pub fn with_frozen_features(
        &self,
        loader: Loader,
        part: FrozenPart,
    ) -> Result<Loader, PolicyError> {
        if let FrozenPart::Adapted(_) = part {
            return Ok(loader);
        }
        let Some(store) = self.store(&loader, part)? else { return Ok(loader) };
        store.fill(&self.backbone, &self.device, &loader.base().1)?;
        Ok(loader.with_rows(store))
    }

    /// Returns the loader with a query for every sample: the unprompted backbone's feature of the sample.
    ///
    /// A predictor that [asks queries](Predictor::asks_queries) needs it.
    ///
    /// Queries of a transform that draws nothing are kept as features are, and shared with readers of those. A loader
    /// that augments gets queries of the samples as the statistics transform sees them, or, for
    /// [`QueryView::Augmented`], none: they are then computed from the pixels of each batch.
    pub fn with_queries(&self, loader: Loader, view: QueryView) -> Result<Loader, PolicyError> {
        let transform = match view {
            _ if loader.transform().is_deterministic() => loader.transform(),
            QueryView::Clean if self.statistics_transform.is_deterministic() => {
                &self.statistics_transform
            }
            QueryView::Clean | QueryView::Augmented => return Ok(loader),
        };
        let (split, shard) = loader.base();
        let store = self.cache.store(&self.backbone, &split, transform, FrozenPart::Whole)?;
        let rows: Arc<dyn SampleRows> = match store {
            Some(store) => {
                store.fill(&self.backbone, &self.device, &shard)?;
                store
            }
            None => Arc::new(self.whole_rows(&split, transform, &shard)?),
        };
        Ok(loader.with_queries(rows))
    }

    /// Returns the backbone's features of some samples that no cache keeps.
    fn whole_rows(
        &self,
        split: &Split,
        transform: &Transform,
        samples: &[u32],
    ) -> Result<HeldRows, PolicyError> {
        let mut values = Vec::with_capacity(samples.len() * self.backbone.dim());
        for chunk in samples.chunks(self.evaluation_batch.max(1)) {
            let input = split.input(transform, chunk, &self.device)?;
            let found = self.backbone.frozen(&input, FrozenPart::Whole)?;
            values.extend(found.flatten_all()?.to_vec1::<f32>()?);
        }
        Ok(HeldRows::new(samples, vec![self.backbone.dim()], values))
    }

    /// Returns the loader with the frozen outputs that `predictor` uses.
    ///
    /// See [`with_frozen_features`](RunContext::with_frozen_features).
    ///
    /// If an earlier method adapted the backbone and froze it, its features are kept as well; if the predictor asks
    /// queries, the loader has them.
    pub fn with_features_for(
        &self,
        loader: Loader,
        predictor: &dyn Predictor,
    ) -> Result<Loader, PolicyError> {
        let loader = match predictor.asks_queries() {
            true => self.with_queries(loader, QueryView::Clean)?,
            false => loader,
        };
        let part = predictor.frozen_part();
        let FrozenPart::Adapted(_) = part else { return self.with_frozen_features(loader, part) };
        let Some(store) = self.store(&loader, part)? else { return Ok(loader) };
        let rows = |pixels: &Tensor| predictor.features(pixels);
        store.fill_with(&rows, &self.device, &loader.base().1)?;
        Ok(loader.with_rows(store))
    }

    fn store(
        &self,
        loader: &Loader,
        part: FrozenPart,
    ) -> Result<Option<Arc<FeatureStore>>, PolicyError> {
        let (split, _) = loader.base();
        Ok(self.cache.store(&self.backbone, &split, loader.transform(), part)?)
    }

    /// Returns the accuracy on the test samples of these head rows, with predictions among these rows.
    ///
    /// `None` if there are no such samples.
    ///
    /// # Errors
    /// Returns an error if samples cannot be read or the predictor fails.
    pub fn accuracy_within(
        &self,
        rows: Range<usize>,
        transform: &Arc<Transform>,
        predictor: &dyn Predictor,
    ) -> Result<Option<f64>, PolicyError> {
        let (test, task_sequence) = (&self.dataset.test, &self.task_sequence);
        let row = |sample: &u32| task_sequence.row_of(test.labels()[*sample as usize]) as usize;
        let own: Shard =
            (0..test.len() as u32).filter(|sample| rows.contains(&row(sample))).collect();
        if own.is_empty() {
            return Ok(None);
        }
        let loader =
            Loader::new(Arc::clone(test), own, Arc::clone(task_sequence), Arc::clone(transform));
        let loader = self.with_features_for(loader, predictor)?;
        let (scope, classes) = (Scope::Task(rows.clone()), task_sequence.classes());
        let tally = evaluate(&loader, self.evaluation_batch, classes, rows.clone(), |batch| {
            predictor.batch_scores(batch, &self.device, &scope)
        })?;
        Ok(tally.accuracy(rows))
    }

    /// Returns a batch's pixels on this context's device, `(batch, channels, height, width)`.
    pub fn pixels(&self, batch: &Batch) -> Result<Tensor, PolicyError> {
        batch.pixels(&self.device).map_err(PolicyError::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassPermutation, FreshPartition, TaskSizes, digits};
    use crate::learning::Schedule;
    use crate::model::{PixelShape, embedded_vit};
    use crate::policy::{Stage, one_participant_per_client};
    use crate::quantity::ClientId;
    use candle_core::DType;

    fn run_context() -> RunContext {
        let task_sequence =
            TaskSequence::new(10, &ClassPermutation::Seeded(1), &TaskSizes::Even(2));
        let pixels = Backbone::Pixels(PixelShape { channels: 1, image: 8 });
        RunContext::new(pixels, digits::embedded().unwrap(), task_sequence.unwrap())
    }

    #[test]
    fn counts_are_of_head_rows() {
        let ctx = run_context();
        let by_class = ctx.dataset.train.by_class();
        // Two samples of class 3 and one of class 8.
        let shard: Shard = [by_class[3][0], by_class[8][4], by_class[3][9]].into_iter().collect();
        let [three, eight] = [3, 8].map(|class| ctx.task_sequence.row_of(class));
        assert_ne!([three, eight], [3, 8]);
        assert_eq!(ctx.shard_label_counts(&shard), ClassCounts::from([(three, 2), (eight, 1)]));
    }

    #[test]
    fn what_a_client_reports_takes_the_place_of_what_it_holds() {
        let distribution =
            FreshPartition::Ratios { category: 0.6, split: 0.1, imbalance: 0.2, counts_only: true };
        let fresh = FreshClients { distribution, seed: 1 };
        let ctx = RunContext { reported: Some(fresh), ..run_context() };
        let view = Arc::clone(&ctx.task_sequence.tasks[1]);
        let participant =
            one_participant_per_client(&Stage::of(Arc::clone(&view), 10), &[ClientId(7)]).remove(0);
        let said = fresh.reported(&view, ClientId(7), &ctx.dataset.class_sizes()).unwrap();
        let nothing = Shard::from([]);
        let counts = ctx.reported_label_counts(&participant, &nothing);
        assert_eq!(counts.len(), 3, "three of five classes");
        for (row, said) in (5..10).zip(said) {
            assert_eq!(counts.get(&row).copied().unwrap_or(0), said);
        }
        let holds = RunContext { reported: None, ..ctx };
        assert!(holds.reported_label_counts(&participant, &nothing).is_empty());
    }

    #[test]
    fn a_context_has_the_rate_of_its_round_and_the_backbone_of_its_place() {
        let training = TrainingPlan { round_schedule: Schedule::Cosine, ..TrainingPlan::default() };
        let ctx = RunContext { training, ..run_context() };
        let later = ctx.at_round(5, 10).training;
        assert!(later.optimizer.learning_rate() < ctx.training.optimizer.learning_rate());
        assert_eq!(later, ctx.training.in_round(5, 10));
        let ctx = RunContext { backbone: Arc::new(embedded_vit().unwrap().into()), ..ctx };
        let half = DeviceSpec { compute: DType::BF16, ..DeviceSpec::cpu() };
        let there = ctx.to_device(&half).unwrap();
        assert!(there.backbone.place().same(&half) && !Arc::ptr_eq(&there.backbone, &ctx.backbone));
        assert!(Arc::ptr_eq(&ctx.to_device(&DeviceSpec::cpu()).unwrap().backbone, &ctx.backbone));
    }
}
