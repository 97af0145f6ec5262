//! **FedCIL** (Qi, Zhao, Li: "Better Generative Replay for Continual Federated Learning", ICLR 2023).
//!
//! Clients train a GAN whose discriminator is the classifier, and replay classes of earlier tasks from its generator.
//!
//! ```text
//! D(x) = (r, p)  logit of being real, and class probabilities; G(z, c) an image of class c
//! L_D(x, y)      BCE(r(x), 1) + CE(p(x), y) + BCE(r(G(z, c)), 0) + CE(p(G(z, c)), c)       c of classes so far
//! client   D <- D - Adam of  w L_D(x, y) + (1 - w) L_D(x~, y~)    x~ of the last task's generator, of its classes
//!                            + k1 KL(p(G_s(z, y)) | p(x)) + k2 KL(p(G_s(z, a)) | p(G(z, a)))
//!                            + k3 CE(p(G_s(z, a)), a)
//!          G <- G - Adam of  BCE(r(G(z, c)), 1) + CE(p(G(z, c)), c)                        once for each batch
//! server   G, D  <- mean weighted by n_m
//!          then steps of both as a client's, where x is an image of the clients' generators of the round and x~ of
//!          their generators of the last task, labels drawn uniformly among those present     (fine_tuning)
//! ```
//! `G_s` is the generator that the server sent, `a` is of all classes seen. In a client's first task `x~` and its
//! weight are missing. The backbone of the scenario is neither trained nor used for predictions; it only determines the
//! size of images, so `backbone.kind = "pixels"` suffices.
//!
//! # Release and paper
//! Defaults are those of the release (daiqing98/FedCIL) on CIFAR-10.
//!
//! * The release multiplies `k1`, `k2` and `k3`, the paper's consistency, by 0. Here keys set these weights; the
//!   paper's values are not in its code. The release computes the terms nevertheless, which changes the running moments
//!   of a client's discriminator; here terms of weight 0 are not computed, and real images pass once, with one mask of
//!   dropout. Neither side of a divergence is detached, and the terms begin in the second round of a task.
//! * The release reads all clients' generators, current and last, out of their memory. Here the server takes the
//!   current one from the upload, and keeps the upload of each client's last round of an earlier task: that is the
//!   client's last generator, so nothing more is sent.
//! * All clients of the release get the model in every round and take part in every task. Here a client's last
//!   generator is the one that it trained itself, and its classes are those on which it trained; a client that was not
//!   drawn before replays nothing. With `last_generator = "server"` every client is sent the server's instead, as an
//!   asset.
//! * The class overwrites the first entries of the noise, so that 100 classes leave 10 of 110 entries. A scenario with
//!   as many classes as entries is refused.
//! * The release averages parameters without running moments and evaluates clients' own networks, with their own
//!   moments. Here the server's model is evaluated, and running moments of the discriminator are sent and averaged.
//!   Generators, also the one of the server, normalize by their batch, so that they have no running moments; in `k1` to
//!   `k3` the release's generator uses its running moments.
//! * The release's discriminator for MNIST declares three batch norms that it does not use; they are left out.
//! * The logarithm of a probability is computed from logits, so it is finite.
//! * Its data loader drops the last incomplete batch.

mod client;
mod config;
mod fine_tuning;
mod labels;
mod losses;
mod memory;
mod moments;
mod predictor;
mod requirements;
mod state;
mod steps;

use std::sync::Arc;

pub use self::config::{ConsistencySettings, FedCil, FineTuning, LastGenerator, MomentSpan};
pub use self::memory::FedCilMemory;
use self::predictor::DiscriminatorModel;
pub use self::state::FedCilState;
use super::HeadForm;
use super::averaging::{
    AveragingConfig, ClosedRound, PackClient, PackResult, Parameters, train_sequentially,
};
use super::entry::MethodEntry;
use super::parts::{
    AveragingMethod, Demands, DownloadExtras, LocalTraining, LocalUpdate, ModelAdaptation, Parts,
    ServerUpdate, TaskEnd, TrainedRows, Workload,
};
use crate::model::{AcGenerator, ParameterSet, of_generator};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Asset, AssetSpec, Capability, ExchangeFacts, GeneratedImages, ImageRequest, MemoryFootprint,
    Metrics, ModelFacts, Participant, PolicyError, Predictor, Restriction, RoundContext,
    RunContext, SampleCost, parameters_of,
};
use crate::wire::Body;

impl AveragingMethod for FedCil {
    type State = FedCilState;
    type Memory = FedCilMemory;

    fn parts(&self) -> Parts<'_, FedCilState, FedCilMemory> {
        let averaging = AveragingConfig { weights: self.client_weighting, head: HeadForm::Fixed };
        Parts {
            local: self,
            upload: self,
            download: self,
            server: self,
            trains: TrainedRows::Carried,
            keeps_uploads: self.fine_tunes(),
            stateless: self.is_stateless(),
            ..Parts::fedavg(self, averaging)
        }
    }
}

impl ModelAdaptation for FedCil {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        Parameters::shared(self.config(model).parameter_shapes())
    }

    fn initial(
        &self,
        model: &ModelFacts,
        _ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        Ok(self.config(model).initial_parameters(init))
    }

    /// Returns the cost of a pass, the unit of work, and of a prediction by the discriminator.
    fn sample_cost(&self, model: &ModelFacts, _task: usize) -> SampleCost {
        let inference = self.config(model).discriminator_multiplications();
        SampleCost { inference, ..SampleCost::whole(model) }
    }

    fn predictor(
        &self,
        model: &ModelFacts,
        _task: usize,
        theta: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(DiscriminatorModel::new(self.config(model), theta, ctx)?))
    }
}

impl FedCil {
    /// Returns the multiplications of a step of both networks, for `images` images.
    ///
    /// The discriminator's step takes a forward and a backward pass (3 passes) of every image and of as many generated
    /// ones, twice with replayed images. The generator's takes 3 passes of itself and 2 of the discriminator.
    fn step_multiplications(&self, model: &ModelFacts, images: f64, replays: bool) -> f64 {
        let config = self.config(model);
        let (generator, discriminator) =
            (config.generator_multiplications(), config.discriminator_multiplications());
        let branches = if replays { 2.0 } else { 1.0 };
        let own = branches * (6.0 * discriminator + generator);
        images * (own + 3.0 * generator + 2.0 * discriminator)
    }

    /// Returns the multiplications of the consistency terms, for `images` images.
    fn agreement_multiplications(&self, model: &ModelFacts, images: f64) -> f64 {
        let ConsistencySettings { real, generated, labels } = self.consistency;
        let passes = [real > 0.0, generated > 0.0 || labels > 0.0, generated > 0.0];
        let passes = passes.into_iter().filter(|passes| *passes).count() as f64;
        let config = self.config(model);
        let each =
            config.generator_multiplications() + 3.0 * config.discriminator_multiplications();
        images * passes * each
    }
}

impl LocalUpdate<FedCilState> for FedCil {
    fn client_update(
        &self,
        training: &LocalTraining<'_, FedCilState>,
        pack: &mut [PackClient<'_, FedCilState>],
    ) -> Result<PackResult, PolicyError> {
        let (model, ctx) = (training.context.model, training.context.ctx);
        Ok(train_sequentially(pack, |member| self.train(model, member, ctx)))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }

    /// Returns the work of all steps; from the second task on, all clients are assumed to replay.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let Workload { model, participant, round, samples, plan } = *load;
        let plan = &self.plan(plan);
        let images = match plan.steps {
            Some(_) => plan.steps_of(samples) as f64 * samples.min(plan.batch) as f64,
            None => load.passes(),
        };
        let replays = participant.view.task.index() > 0;
        let images_made = if replays { images } else { 0.0 };
        let replayed = images_made * self.config(model).generator_multiplications();
        let agreement = match round.round_in_phase {
            0 => 0.0,
            _ => self.agreement_multiplications(model, images),
        };
        model.passes(self.step_multiplications(model, images, replays) + replayed + agreement)
    }

    fn demands(&self) -> Demands {
        let why = "the last generator is of one task";
        Demands {
            requirements: self.requirements_of(),
            restrictions: Restriction::against(&[Capability::MixedTasks], why),
        }
    }
}

impl DownloadExtras<FedCilMemory> for FedCil {
    fn asset_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<AssetSpec> {
        let sends = self.last_generator == LastGenerator::Server;
        let before = facts.view.task.0.checked_sub(1).filter(|_| sends);
        let spec = |before| memory::asset_spec(before, &self.config(facts.model));
        before.map(spec).into_iter().collect()
    }

    fn assets(
        &self,
        memory: &FedCilMemory,
        _participant: &Participant,
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        Ok(memory.asset()?.into_iter().collect())
    }
}

impl ServerUpdate<FedCilMemory> for FedCil {
    fn server_update(
        &self,
        memory: &mut FedCilMemory,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        match self.fine_tunes() {
            true => self.fine_tune(memory, &closing, theta),
            false => Ok(Metrics::new()),
        }
    }

    fn end_task(
        &self,
        memory: &mut FedCilMemory,
        theta: &ParameterSet,
        TaskEnd { stage, .. }: TaskEnd<'_>,
        _ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        if self.last_generator == LastGenerator::Server {
            memory.keep(stage.task, theta.filter(of_generator));
        }
        Ok(())
    }

    /// Returns images of the averaged generator, cycling through all classes.
    fn generated_images(
        &self,
        model: &ModelFacts,
        saved: &Body,
        request: &ImageRequest<'_>,
    ) -> Result<Option<GeneratedImages>, PolicyError> {
        let (config, device) = (self.config(model), &request.ctx.device);
        let generator = AcGenerator::frozen(config, &parameters_of(saved)?, device)?;
        let noise = config.noise_of(&request.labels(), request.key(), device)?;
        let normalization = &request.ctx.train_transform.normalization;
        GeneratedImages::normalized(&generator.images(&noise)?, normalization).map(Some)
    }

    /// Returns the work of fine-tuning after a round: images of all clients' generators, and steps.
    fn work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        if updates == 0 || !self.fine_tunes() {
            return 0.0;
        }
        let replays = round.stage.task.index() > 0;
        let images = f64::from(self.server.steps) * f64::from(self.server.batch);
        let generators = updates as f64 * if replays { 2.0 } else { 1.0 };
        let made = images * generators * self.config(model).generator_multiplications();
        model.passes(made + self.step_multiplications(model, images, replays))
    }

    /// Returns the bytes of both networks, of stored generators and of moments.
    fn memory_footprint(&self, model: &ModelFacts) -> Option<MemoryFootprint> {
        let config = self.config(model);
        let numbers = |shapes: Vec<(String, Vec<usize>)>| {
            shapes.iter().map(|(_, shape)| shape.iter().product::<usize>() as u64).sum::<u64>()
        };
        let generator = 4 * numbers(config.generator_shapes());
        let all = 4 * numbers(config.parameter_shapes());
        let moments = |kept: bool| if kept { 2 * all } else { 0 };
        let (of_clients, own) = match self.last_generator {
            LastGenerator::Own => (2 * generator, 0),
            LastGenerator::Server => (0, generator),
        };
        let kept = if self.fine_tunes() { of_clients * model.clients as u64 } else { 0 };
        Some(MemoryFootprint {
            server: all + own + kept + moments(self.fine_tunes()),
            client: of_clients + moments(self.moments != MomentSpan::Round),
        })
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "Clients train a GAN whose discriminator classifies, and replay classes of earlier tasks from their last \
               generator; the server trains the averaged GAN on images of all clients' generators, class by class.",
        source: "Qi, Zhao, Li: Better Generative Replay for Continual Federated Learning, ICLR 2023",
        state: "server: generator and discriminator, moments of both, two generators of every client; client: its own \
                generator and the last task's, moments",
        lends_features: false,
        ..MethodEntry::averaging("fedcil", FedCil::read)
    }
}
