//! **LANDER** (CVPR 2024): FedAvg with label-text embeddings as anchors of features, and images generated around them.
//!
//! As a task ends the server generates images for the best global model of the task, without data; clients of the next
//! task replay them. Source: Tran et al., "Text-Enhanced Data-free Approach for Federated Class-Incremental Learning".
//!
//! ```text
//! client   first task: CE over its rows + 5 bound(x, y);  bound = max(0, mean (h(x) - T_y)^2 - 0.015)
//!          later: cur (CE over the task's rows + 5 bound) + pre (KD + mean (h - h_old)^2 on images)   (objective)
//!          sends the sum of its first epoch's losses
//! server   the plain mean; keeps the model at the start of the round with the lowest losses; returns to it with the
//!          last round of a task                                                                       (memory)
//!          as a task ends: 50 calls of a generator whose inputs are noisy label embeddings            (synthesis)
//! ```
//! `h` is a linear map of features, `T` the table of embeddings. Old model and images, as bytes, are assets: a client
//! that takes part for the first time in a task gets both, and clients keep nothing. The table is a setting, as the
//! names of classes are: it does not travel. Images pass the transform of local training, as samples do.
//!
//! Defaults are the release's (tmtuan1307/LANDER). Differences between sources, and slips of the release:
//!
//! * The head reads features; the map is a branch (`mapping`). As a layer below the head it would take part in
//!   predictions.
//! * STSA's copy drops the bound from the first task's loss (`bound_first_task`), and makes images after the last task,
//!   too, which no client gets; these are left out here.
//! * Vectors of the release are CLIP's, as they come: of length 8 to 13 for CIFAR-100. Without them only
//!   `embeddings = "orthogonal"` is left, whose results are not comparable with published ones.
//! * The model after a task's last round cannot be selected: its losses are never computed. The sum over clients is a
//!   mean here, so that rounds of fewer clients compare. If no client sends anything in the last round, the model stays
//!   as it is.
//! * The mean and the deviation by which the server's model sees images are trained from 0.5 and 0.2 on, about those of
//!   CIFAR-100; clients normalize images as samples (`image_normalization`).
//! * Clients read the first 10,000 of 10,496 images by file name (`replayed_images`); all are sent.
//! * Its ImageNet has another generator, with four doublings, which is not here.
//!
//! Networks without batch norms have no moments to match: a transformer trains, but its generator has less to learn
//! from.

mod config;
mod embeddings;
mod memory;
mod objective;
mod requirements;
mod synthesis;

use std::path::Path;
use std::sync::Arc;

pub use self::config::{ImageNormalization, Lander, ModelSelection};
pub use self::embeddings::LabelEmbeddings;
use self::embeddings::ORTHOGONAL;
pub use self::memory::LanderMemory;
use self::objective::{Anchors, LanderObjective, LanderReplay};
use self::synthesis::Synthesis;
use super::averaging::{
    ClosedRound, LocalTrainingResult, Objective, PackClient, Parameters, Requirement, RowSelection,
    first_of, sample_count,
};
use super::entry::MethodEntry;
use super::image_synthesis::{
    OldModelReplay, image_asset, image_asset_specs, replay_work, saved_images,
};
use super::parts::{
    AveragingMethod, ClientContext, Demands, DownloadExtras, LocalUpdate, ModelAdaptation, Parts,
    PreviousModel, RowQuery, ServerUpdate, TaskEnd, TaskStart, TrainedRows, TrainingSettings,
    UploadExtras, Workload,
};
use crate::data::TaskView;
use crate::learning::Classifier;
use crate::model::{HeadKind, MappingPlace, ParameterSet};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{
    Asset, AssetSpec, Capability, ExchangeFacts, GeneratedImages, ImageRequest, Metrics,
    ModelFacts, Participant, PolicyError, Restriction, RoundContext, RunContext, StalenessRule,
    TensorSpec,
};
use crate::wire::{Body, Dtype, Kind, Section};

/// Step of the stream that draws start values of the map; the head uses another.
const MAPPING: u64 = 1;
/// Tensor of an upload: the sum of the first epoch's losses, and a one to count clients.
const LOSSES: &str = "first_epoch_losses";

/// Returns the specification of the tensor of losses by which models are selected.
///
/// Those of late uploads are refused, since they belong to another model.
fn losses() -> TensorSpec {
    TensorSpec::new(Kind::Statistics, LOSSES, &[2], Dtype::F64).summed(StalenessRule::Refuse)
}

impl AveragingMethod for Lander {
    type State = ();
    type Memory = LanderMemory;

    /// Returns FedAvg's parts with a map of features and, for replay, the previous model and images.
    fn parts(&self) -> Parts<'_, (), LanderMemory> {
        let parts = Parts {
            adaptation: self,
            trains: TrainedRows::Seen,
            local: self,
            upload: self,
            server: self,
            ..self.fedavg.base()
        };
        if !self.replays() {
            return parts;
        }
        Parts { download: self, previous_model: Some(PreviousModel::default()), ..parts }
    }
}

impl Lander {
    /// Returns the width of the head's input: of features, or of mapped features.
    fn head_width(&self, model: &ModelFacts) -> usize {
        match self.mapping {
            MappingPlace::Branch => model.backbone.dim(),
            MappingPlace::Below => self.embedding_width as usize,
        }
    }

    /// Returns the label embeddings of a data set with `classes` classes.
    ///
    /// # Errors
    /// When the file cannot be read or does not fit, or there are more classes than dimensions of orthogonal rows.
    pub fn table(&self, classes: usize) -> Result<LabelEmbeddings, String> {
        let width = self.embedding_width as usize;
        match self.embeddings.as_str() {
            ORTHOGONAL => LabelEmbeddings::orthogonal(classes, width, self.embedding_norm),
            file => LabelEmbeddings::read(Path::new(file), classes, width),
        }
    }

    fn anchors(&self, ctx: &RunContext) -> Result<Anchors, PolicyError> {
        let order = ctx.task_sequence.order.clone();
        let table = self.table(order.len()).map_err(PolicyError::Unsupported)?;
        Ok(Anchors { table, order, radius: self.radius, weight: self.anchor_weight })
    }
}

impl ModelAdaptation for Lander {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let mut below = model.backbone.parameter_shapes();
        let (dim, width) = (model.backbone.dim(), self.embedding_width as usize);
        below.extend(self.mapping.shapes(dim, width));
        Parameters::shared(below).head(HeadKind::Linear, model.classes, self.head_width(model))
    }

    fn initial(
        &self,
        model: &ModelFacts,
        ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let (dim, width) = (model.backbone.dim(), self.embedding_width as usize);
        let mapping = self.mapping.initial_parameters(dim, width, init.step(MAPPING));
        let head_width = self.head_width(model);
        let head = self.fedavg.head_init.parameters(model.classes, head_width, init);
        Ok(ctx.backbone.parameters()?.merge(&mapping).merge(&head))
    }

    fn rows(&self, query: &RowQuery<'_>) -> RowSelection {
        self.fedavg.rows(query)
    }

    fn settings(&self, view: &TaskView) -> TrainingSettings {
        self.fedavg.settings(view)
    }

    fn rate_factor(&self, name: &str) -> f64 {
        self.fedavg.rate_factor(name)
    }

    fn demands(&self) -> Demands {
        Demands::requiring(self.fedavg.demands().requirements)
    }
}

impl LocalUpdate<()> for Lander {
    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[PackClient<'_, ()>],
        _network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let (first, ctx) = (first_of(pack)?, context.ctx);
        let view = &first.participant.view;
        let sizes = (self.synthesis.batch, self.replayed_images, self.synthetic_batch);
        let draws = (self.joint_batch, first.key);
        let images = OldModelReplay::received((first.download, ctx), sizes, draws)?;
        let weights = self.weights(view.rows.start, view.seen());
        let replay = images.map(|images| LanderReplay { images, weights });
        let binds = view.rows.start > 0 || self.bound_first_task;
        let (anchors, rows) = (self.anchors(ctx)?, view.rows.clone());
        Ok(Box::new(LanderObjective { anchors, binds, rows, replay }))
    }

    /// Returns the passes of training on own samples and generated images, and of the old model's outputs.
    fn work(&self, load: &Workload<'_>) -> f64 {
        if load.participant.view.task.index() == 0 || !self.replays() {
            return load.passes();
        }
        replay_work(load, self.synthetic_batch)
    }

    fn demands(&self) -> Demands {
        Demands {
            requirements: vec![Requirement::generated_images(), requirements::embeddings(self)],
            restrictions: Restriction::against(
                &[Capability::MixedTasks],
                "the old model and its images are of one task",
            ),
        }
    }
}

impl UploadExtras<()> for Lander {
    fn tensor_specs(&self, _: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let selects = self.selection == ModelSelection::Best;
        [sample_count()].into_iter().chain(selects.then(losses)).collect()
    }

    fn sections(
        &self,
        _: &ClientContext<'_>,
        _: &PackClient<'_, ()>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        let mut section = trained.sample_count()?;
        if self.selection == ModelSelection::Best {
            section.tensors.push(losses().tensor(&[trained.first_epoch, 1.0])?);
        }
        Ok(vec![section])
    }
}

impl DownloadExtras<LanderMemory> for Lander {
    fn asset_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<AssetSpec> {
        image_asset_specs(facts, self.images(), self.synthesis.image_shape(facts.model))
    }

    fn assets(
        &self,
        memory: &LanderMemory,
        _participant: &Participant,
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        Ok(memory.images.iter().cloned().collect())
    }
}

impl ServerUpdate<LanderMemory> for Lander {
    fn begin_task(&self, _: TaskStart<'_>, memory: &mut LanderMemory, _: &mut ParameterSet) {
        memory.begin_task();
    }

    /// Compares the round's initial model by its losses; the last round returns to the best one.
    fn server_update(
        &self,
        memory: &mut LanderMemory,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        if self.selection == ModelSelection::Last {
            return Ok(Metrics::new());
        }
        let sums = closing.aggregate.sum(LOSSES)?;
        let (&[loss, clients], before) = (sums, closing.before) else {
            let problem = format!("`{LOSSES}` has {} numbers, expected 2", sums.len());
            return Err(PolicyError::Unsupported(problem));
        };
        let mean = loss / clients.max(1.0);
        if clients > 0.0 {
            memory.compare(mean, before);
        }
        let is_last = closing.round.round_in_phase + 1 == closing.round.rounds_in_phase;
        if let Some(best) = memory.best().filter(|_| is_last) {
            *theta = best.clone();
        }
        Ok(vec![("selection_loss", mean)])
    }

    /// Generates images for the classes seen, except after the last task, when no client would get them.
    fn end_task(
        &self,
        memory: &mut LanderMemory,
        theta: &ParameterSet,
        TaskEnd { model, stage, init }: TaskEnd<'_>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let task = stage.task;
        if !self.replays() || task.index() + 1 >= model.tasks {
            return Ok(());
        }
        let synthesis = Synthesis {
            method: self,
            anchors: &self.anchors(ctx)?,
            model,
            ctx,
            key: init.domain(Domain::Method).task(u32::from(task.0)),
        };
        let images = synthesis.run(theta, stage.view.seen())?;
        let shape = self.synthesis.image_shape(model);
        memory.images = Some(image_asset(u32::from(task.0), shape, &images)?);
        Ok(())
    }

    fn generated_images(
        &self,
        _model: &ModelFacts,
        saved: &Body,
        request: &ImageRequest<'_>,
    ) -> Result<Option<GeneratedImages>, PolicyError> {
        saved_images(saved, request)
    }

    /// Returns the work of generating images, which counts in the last round of every task but the last.
    fn work(&self, model: &ModelFacts, round: &RoundContext, _updates: usize) -> f64 {
        let last_round = round.round_in_phase + 1 == round.rounds_in_phase;
        if !self.replays() || !last_round || round.stage.task.index() + 1 >= model.tasks {
            return 0.0;
        }
        let calls = self.calls();
        let adversaries = (1..=calls).filter(|call| self.has_adversary(*call)).count() as u32;
        let taught = self.kept_calls() * self.synthesis.student_steps;
        let noise = f64::from(self.embedding_width) * f64::from(self.synthesis.latent);
        self.synthesis.work(model, (calls, adversaries, taught), noise)
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg that anchors features at embeddings of class names; as a task ends its server generates images \
               around the anchors for the best global model, without data, and clients of the next task replay them.",
        source: "Tran, Le, Le, Harandi, Phung: Text-Enhanced Data-free Approach for Federated Class-Incremental \
                 Learning, CVPR 2024",
        state: "server: the parameters, the best ones of the task, those at the end of the task before, images; \
                client: nothing",
        ..MethodEntry::averaging("lander", Lander::read)
    }
}
