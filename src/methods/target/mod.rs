//! **TARGET** (ICCV 2023): FedAvg with images of a generator that its server trains as a task ends, without data.
//!
//! Clients of the next task replay them and distill the scores of the model for which they were generated. Source:
//! Zhang et al., "TARGET: Federated Class-Continual Learning via Exemplar-Free Distillation".
//!
//! ```text
//! client   first task: CE over its rows;  later: CE over the task's rows + 25 KD on images            (objective)
//! server   the plain mean
//!          as a task ends: 10 calls of a generator, each of which leaves a batch of images            (synthesis)
//! ```
//! Old model and images, as bytes, are assets: a client that takes part for the first time in a task gets both, and
//! clients keep nothing. Images pass the transform of local training, as samples do; what the server's model sees of
//! them is normalized as samples are. Only the images generated last are replayed; they show all classes seen.
//!
//! Defaults are the release's on CIFAR-100 (zj-jayzhang/Federated-Class-Continual-Learning). Differences between
//! sources, and slips of the release:
//!
//! * It makes 2,560 images where 8,000 are meant to be replayed, 500 a step. An epoch ends with the images, after six
//!   steps: so it does here (`epoch_end`). A pass over images continues in the next epoch, where the release shuffles
//!   again.
//! * Its ten calls end before its warm-up of 20: the student never takes part. In call 20 it would take part without
//!   having learned anything.
//! * On other data it has 200 calls of 50 steps at a rate of 2e-4 with weights of 0.1 for labels and norms, a
//!   temperature of 5, and follows the copy's change instead of its gradients (`meta`). Clients get the 8,000 images
//!   that they replay, not all.
//! * It can draw the first layer again in a call that no configuration reaches; this is left out.
//! * The port behind HGP's rows draws no labels of the newest class (`label_range`), uses all rows of a fixed head
//!   (`answer_rows`), clips the student's gradients, and has 30 calls of 80 steps on 16 images.
//!
//! Networks without batch norms have no moments to match: a transformer trains, but its generator has less to learn
//! from.

mod config;
mod memory;
mod objective;
mod synthesis;

use std::sync::Arc;

pub use self::config::{AnswerRows, EpochEnd, LabelRange, MetaStep, StudentSchedule, TargetMethod};
pub use self::memory::TargetMemory;
use self::objective::TargetObjective;
use self::synthesis::TargetSynthesis;
use super::averaging::{CrossEntropy, Objective, PackClient, PackResult, Requirement, first_of};
use super::entry::MethodEntry;
use super::image_synthesis::{
    OldModelReplay, image_asset, image_asset_specs, replay_work, saved_images,
};
use super::parts::{
    AveragingMethod, ClientContext, Demands, DownloadExtras, LocalTraining, LocalUpdate, Parts,
    PreviousModel, ServerUpdate, TaskEnd, TrainedRows, Workload,
};
use crate::learning::Classifier;
use crate::model::ParameterSet;
use crate::numerics::streams::Domain;
use crate::policy::{
    Asset, AssetSpec, Capability, ExchangeFacts, GeneratedImages, ImageRequest, ModelFacts,
    Participant, PolicyError, Restriction, RoundContext, RunContext,
};
use crate::wire::Body;

impl AveragingMethod for TargetMethod {
    type State = ();
    type Memory = TargetMemory;

    /// Returns FedAvg's parts with the previous model and images.
    ///
    /// Clients that replay images train all rows seen.
    fn parts(&self) -> Parts<'_, (), TargetMemory> {
        if !self.replays() {
            return self.fedavg.base();
        }
        Parts {
            trains: TrainedRows::Seen,
            local: self,
            download: self,
            previous_model: Some(PreviousModel::default()),
            server: self,
            ..self.fedavg.base()
        }
    }
}

impl LocalUpdate<()> for TargetMethod {
    fn objective(
        &self,
        context: &ClientContext<'_>,
        pack: &[PackClient<'_, ()>],
        _network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let first = first_of(pack)?;
        // The download has images without their batches; a replay shuffles them, so their order does not matter.
        let sizes = (1, u32::MAX, self.synthetic_batch);
        let draws = (self.joint_batch, first.key);
        let images = OldModelReplay::received((first.download, context.ctx), sizes, draws)?;
        let Some(images) = images else { return Ok(Box::new(CrossEntropy)) };
        let (rows, weight) = (first.participant.view.rows.clone(), self.kd_weight);
        Ok(Box::new(TargetObjective { images, rows, weight }))
    }

    fn client_update(
        &self,
        training: &LocalTraining<'_, ()>,
        pack: &mut [PackClient<'_, ()>],
    ) -> Result<PackResult, PolicyError> {
        if first_of(pack)?.participant.view.rows.start == 0 {
            return training.train(pack);
        }
        let ctx = training.context.ctx;
        let ctx = RunContext { training: self.plan(&ctx.training), ..ctx.clone() };
        training.in_context(&ctx).train(pack)
    }

    /// Returns the passes of training on own samples and generated images, and of the old model's outputs.
    fn work(&self, load: &Workload<'_>) -> f64 {
        if load.participant.view.task.index() == 0 {
            return load.passes();
        }
        let plan = &self.plan(load.plan);
        let seen = plan.epoch_steps.map(|steps| steps as usize * plan.batch);
        let samples = seen.map_or(load.samples, |seen| seen.min(load.samples));
        replay_work(&Workload { plan, samples, ..*load }, self.synthetic_batch)
    }

    fn demands(&self) -> Demands {
        Demands {
            requirements: vec![Requirement::generated_images()],
            restrictions: Restriction::against(
                &[Capability::MixedTasks],
                "the old model and its images are of one task",
            ),
        }
    }
}

impl DownloadExtras<TargetMemory> for TargetMethod {
    fn asset_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<AssetSpec> {
        image_asset_specs(facts, self.images(), self.synthesis.image_shape(facts.model))
    }

    fn assets(
        &self,
        memory: &TargetMemory,
        _participant: &Participant,
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        Ok(memory.images.iter().cloned().collect())
    }
}

impl ServerUpdate<TargetMemory> for TargetMethod {
    /// Generates images for the classes seen, except after the last task, when no client would get them.
    fn end_task(
        &self,
        memory: &mut TargetMemory,
        theta: &ParameterSet,
        TaskEnd { model, stage, init }: TaskEnd<'_>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let task = stage.task;
        if task.index() + 1 >= model.tasks {
            return Ok(());
        }
        let key = init.domain(Domain::Method).task(u32::from(task.0));
        let images =
            TargetSynthesis { method: self, model, ctx, key }.run(theta, stage.view.seen())?;
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
        if !last_round || round.stage.task.index() + 1 >= model.tasks {
            return 0.0;
        }
        let calls = || 1..=self.synthesis_rounds;
        let adversaries = calls().filter(|call| self.has_adversary(*call)).count() as u32;
        let taught = calls().filter(|call| self.distills(*call)).count() as u32;
        let taught = taught * self.synthesis.student_steps;
        self.synthesis.work(model, (self.synthesis_rounds, adversaries, taught), 0.0)
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose server generates images for the global model as a task ends, without data; clients of the \
               next task replay them and distill the old model's scores on them.",
        source: "Zhang, Chen, Zhuang, Lyu: TARGET: Federated Class-Continual Learning via Exemplar-Free Distillation, \
                 ICCV 2023",
        state: "server: the parameters, those at the end of the task before, images; client: nothing",
        ..MethodEntry::averaging("target", TargetMethod::read)
    }
}
