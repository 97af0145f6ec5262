//! **CFed** over FedAvg: from the second task on some clients learn the task, and others review earlier ones.
//!
//! A reviewer distills the previous task's model on unlabeled samples. Source: Ma et al., "Continual Federated
//! Learning Based on Knowledge Distillation" (CFeD), IJCAI 2022.
//!
//! ```text
//! server   of the m clients drawn floor(0.6 m) learn, floor(0.4 m) review                            (roles)
//! learner  minimizes the cross-entropy over all outputs
//! reviewer q = softmax(w_old(x) / T) on its shard of [data.auxiliary], once;
//!          minimizes -0.1 mean sum q log softmax(w(x) / T)                                           (distillation)
//! server   the plain mean of all models; with `server_distils` then the same loss on its own shard, towards the
//!          models of learners, of reviewers and the one before them: in epoch e of n samples, sample i follows model
//!          (e n + i) mod L                                                                          (TeacherLogits)
//! ```
//! Auxiliary samples are not augmented, for teachers and students (`review_augments`). The release differs from the
//! paper, and from itself. There is no shuffling, so that its stored targets fit; here they are stored by sample, and
//! batches are shuffled. Its old model answers in training mode, by what looks like a slip; here in evaluation mode. It
//! takes the first four fifths of every shard; here a shard is taken whole. It leaves out the last batch of an epoch if
//! that is smaller, deals data and auxiliary samples again in every task, and its server distills on one client's
//! shard; here shards are dealt once, and the server has a shard of auxiliary samples. Roles are drawn from all clients
//! there, and here from the cohort of the round (`drawn = "independently"`; a client that has both roles sends two
//! models). Server distillation is off in the release. Powder's port, which the review of C2Prompt ran, reviews a
//! client's own exemplars, and is not this method.
//!
//! A comparison has to mention the auxiliary samples, which most methods lack. A client holds its shard from the start,
//! or is sent it (`surrogate = "sent"`): once, if `wire.asset_cache = "run"` lets clients keep what they were sent.

mod distillation;
mod requirements;
mod roles;

use std::sync::Arc;

use clap::ValueEnum;

use self::distillation::{CfedStudent, TeacherLogits, auxiliary_samples};
use self::roles::RELEASE;
pub use self::roles::{CohortDivision, REVIEWER, RoleAssignment, Rounding};
use super::averaging::{
    ClosedRound, LocalTrainingResult, PackClient, PackResult, previous, train_sequentially,
};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{
    AveragingMethod, ClientContext, Demands, DownloadExtras, LocalTraining, LocalUpdate, Parts,
    PlainDownload, PreviousModel, ServerUpdate, TrainedRows, Workload,
};
use super::trainable::TrainableKeys;
use crate::learning::TrainingPlan;
use crate::model::ParameterSet;
use crate::numerics::streams::Domain;
use crate::policy::{
    Asset, AssetSpec, Capability, ExchangeFacts, KeptUpload, Metrics, ModelFacts, Participant,
    PolicyError, Restriction, RoundContext, RunContext,
};
use crate::scenario::reader::{Choice, Keys};
use crate::wire::{
    Body, BodyShape, Dtype, Kind, NamedTensor, Section, SectionShape, TensorShape, TensorValues,
};

/// Name of the asset with a reviewer's shard, if shards are sent.
const SURROGATE: &str = "surrogate";

/// Origin of a reviewer's shard of auxiliary samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Surrogate {
    /// Held by the reviewer from the start.
    Held,
    /// Sent by the server.
    Sent,
}

/// Keys of the `[method]` table of CFed.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Cfed {
    /// Trained parameters and their aggregation; all classes seen compete.
    #[key(read = FedAvg::read_keys(table, FEDAVG_KEYS))]
    pub fedavg: FedAvg,
    /// Division of a cohort into learners and reviewers.
    #[key(flatten)]
    pub division: CohortDivision,
    /// Origin of a reviewer's auxiliary samples.
    #[key(default = Surrogate::Held, source = RELEASE)]
    pub surrogate: Surrogate,
    /// Temperature of the distillation (`T`).
    #[key(default = 2.0, above = 0.0, source = RELEASE)]
    pub temperature: f64,
    /// Weight of the distillation.
    #[key(default = 0.1, above = 0.0, source = RELEASE)]
    pub review_weight: f64,
    /// True to distill at the server, too, on its own auxiliary samples.
    #[key(default = false, source = "the release; true in the paper")]
    pub server_distils: bool,
    /// Number of epochs of the server over its auxiliary samples.
    #[key(default = 5, at_least = 1.0, source = RELEASE)]
    pub server_epochs: u32,
    /// Number of samples in a training step of the server.
    #[key(default = 128, at_least = 1.0, source = RELEASE)]
    pub server_batch: u32,
    /// True to augment auxiliary samples for students; their targets are always of unaugmented samples.
    #[key(default = false, source = RELEASE)]
    pub review_augments: bool,
}

const FEDAVG_KEYS: TrainableKeys = TrainableKeys::FEDAVG.uniform(RELEASE).over_all_seen();

impl Cfed {
    fn reviews(&self) -> bool {
        self.division.reviewers > 0.0
    }

    fn sends_shards(&self) -> bool {
        self.reviews() && self.surrogate == Surrogate::Sent
    }

    /// Distills the previous task's model on a client's shard of auxiliary samples.
    fn review(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, ()>,
    ) -> Result<LocalTrainingResult, PolicyError> {
        let ClientContext { model, shared, ctx } = *context;
        let untaught = || PolicyError::Unsupported("a reviewer was sent no old model".to_owned());
        let old = previous::of(member.download)?.ok_or_else(untaught)?;
        let view = &member.participant.view;
        let rows = shared.trained_rows(model, view);
        let samples = auxiliary_samples(ctx)?.of(member.participant.client);
        let targets = TeacherLogits::of(&[&old], &rows, &samples, ctx)?;
        let student = CfedStudent {
            method: self,
            received: (member.received.clone(), rows),
            plan: ctx.training.clone(),
            settings: shared.adaptation.settings(view),
            key: member.key,
        };
        let (parameters, report) = student.learn(&samples, &targets, ctx)?;
        let mut metrics = report.metrics();
        metrics.push(("reviewed", samples.len() as f64));
        let vectors = ParameterSet::new();
        Ok(LocalTrainingResult {
            parameters,
            samples: samples.len(),
            rates: report.rates,
            first_epoch: report.first_epoch,
            vectors,
            metrics,
        })
    }

    /// Distills the models of a round on the server's shard; each sample has one of them as its teacher.
    fn distil(
        &self,
        closing: &ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let ClosedRound { model, shared, before, aggregate, round, ctx } = closing;
        let none = || PolicyError::Unsupported("the server has no auxiliary samples".to_owned());
        let samples = auxiliary_samples(ctx)?.of_server().ok_or_else(none)?;
        let view = &round.stage.view;
        let rows = shared.trained_rows(model, view);
        let reviews = |kept: &&KeptUpload| kept.meta.participant.role == REVIEWER;
        let learners = aggregate.kept_uploads.iter().filter(|kept| !reviews(kept));
        let came_back = learners.chain(aggregate.kept_uploads.iter().filter(reviews));
        let came_back = came_back.map(|kept| &kept.update.parameters);
        let models: Vec<&ParameterSet> = came_back.chain([*before]).collect();
        let targets = TeacherLogits::of(&models, &rows, &samples, ctx)?;
        let plan = ctx.in_round(round).training;
        let student = CfedStudent {
            method: self,
            received: (std::mem::take(theta), rows),
            plan: TrainingPlan {
                epochs: self.server_epochs,
                batch: self.server_batch as usize,
                ..plan
            },
            settings: shared.adaptation.settings(view),
            key: round.key(Domain::Method),
        };
        let (parameters, report) = student.learn(&samples, &targets, ctx)?;
        *theta = parameters;
        let last = report.epoch_losses.last().copied().unwrap_or(0.0);
        Ok(vec![("distilled", samples.len() as f64), ("distillation_loss", last)])
    }
}

impl AveragingMethod for Cfed {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        let of_reviewers = PreviousModel { role: Some(REVIEWER), ..PreviousModel::default() };
        Parts {
            trains: TrainedRows::Carried,
            local: self,
            download: if self.sends_shards() { self } else { &PlainDownload },
            previous_model: self.reviews().then_some(of_reviewers),
            server: self,
            roles: Some(&self.division),
            keeps_uploads: self.server_distils,
            ..self.fedavg.base()
        }
    }
}

impl LocalUpdate<()> for Cfed {
    /// Trains learners as a pack and reviewers one by one; all members of a pack have the same role.
    fn client_update(
        &self,
        training: &LocalTraining<'_, ()>,
        pack: &mut [PackClient<'_, ()>],
    ) -> Result<PackResult, PolicyError> {
        match pack.first().is_some_and(|member| member.participant.role == REVIEWER) {
            true => Ok(train_sequentially(pack, |member| self.review(&training.context, member))),
            false => training.train(pack),
        }
    }

    /// Charges a reviewer its training on auxiliary samples, and a forward pass of the old model over them.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let shard = load.model.auxiliary.map_or(0, |known| known.samples);
        match load.participant.role == REVIEWER {
            true => load.passes_over(shard) + shard as f64 / 3.0,
            false => load.passes(),
        }
    }

    fn demands(&self) -> Demands {
        let why = "the old model that is reviewed is of one task";
        match self.reviews() {
            true => Demands {
                requirements: vec![requirements::auxiliary()],
                restrictions: Restriction::against(&[Capability::MixedTasks], why),
            },
            false => Demands::default(),
        }
    }
}

/// Shards of auxiliary samples in the downloads of reviewers.
impl DownloadExtras<()> for Cfed {
    fn is_personal(&self) -> bool {
        true
    }

    fn asset_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<AssetSpec> {
        let known = facts.model.auxiliary.filter(|_| facts.role == REVIEWER);
        let shape = known.and_then(|known| Some((known.samples, known.image?)));
        let shape = shape.map(|(samples, [channels, rows, columns])| {
            let shape = vec![samples, channels, rows, columns];
            let images = TensorShape::new(SURROGATE, shape, Dtype::U8);
            let section = SectionShape::new(Kind::Exemplars, vec![images]);
            AssetSpec {
                name: SURROGATE,
                version: 0,
                body: BodyShape::new(0, vec![section]),
                renewed_in: None,
            }
        });
        shape.into_iter().collect()
    }

    fn assets(
        &self,
        _memory: &(),
        participant: &Participant,
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        if participant.role != REVIEWER {
            return Ok(Vec::new());
        }
        let auxiliary = auxiliary_samples(ctx)?;
        let (samples, unknown) = (auxiliary.of(participant.client), "images of different sizes");
        let unsized_images = || PolicyError::Unsupported(unknown.to_owned());
        let [channels, rows, columns] =
            auxiliary.split().image_shape().ok_or_else(unsized_images)?;
        let bytes = TensorValues::U8(auxiliary.bytes(&samples)?.into());
        let images = NamedTensor::new(SURROGATE, [samples.len(), channels, rows, columns], bytes)?;
        let body = Body::new(Vec::new(), vec![Section::new(Kind::Exemplars, vec![images])]);
        Ok(vec![Arc::new(Asset::new(SURROGATE, 0, Kind::Exemplars, body))])
    }

    fn demands(&self) -> Demands {
        Demands::requiring([requirements::images_of_one_size()])
    }
}

impl ServerUpdate<()> for Cfed {
    fn server_update(
        &self,
        _memory: &mut (),
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        match self.server_distils {
            true => self.distil(&closing, theta),
            false => Ok(Vec::new()),
        }
    }

    /// Charges the server's epochs, and a forward pass over its shard for each upload and the model before.
    fn work(&self, model: &ModelFacts, _round: &RoundContext, updates: usize) -> f64 {
        let shard = model.auxiliary.filter(|_| self.server_distils);
        let shard = shard.map_or(0.0, |known| known.samples as f64);
        shard * (f64::from(self.server_epochs) + (updates + 1) as f64 / 3.0)
    }

    fn demands(&self) -> Demands {
        Demands::requiring(self.server_distils.then(requirements::auxiliary_of_server))
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg in which some clients learn the task and others distill the old model on unlabeled auxiliary \
               samples.",
        source: "Ma et al., Continual Federated Learning Based on Knowledge Distillation, IJCAI \
                 2022",
        state: "server: the parameters and those of the task before, perhaps auxiliary samples; \
                client: its auxiliary samples",
        ..MethodEntry::averaging("cfed", Cfed::read)
    }
}
