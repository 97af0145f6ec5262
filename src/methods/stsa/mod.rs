//! **STSA** and **STSA-E** (arXiv 2506.01327): ridge regression from sums, without later gradients.
//!
//! "Federated Class-Incremental Learning via Spatial-Temporal Statistics Aggregation". There is no gradient after the
//! first task. Features of a frozen network pass a fixed random ReLU layer; the head is the ridge regression on them,
//! in closed form, from sums that add over clients (space) and tasks (time).
//!
//! ```text
//! server   seed                                                      down, 8 bytes
//! client   h = ReLU(f W_rand);  P_m = sum h onehot(y)^T
//!   STSA     G_m = sum h h^T                                         up: G_m, P_m
//!   STSA-E   n_c = samples of class c                                up: P_m, n
//! server   G += sum_m G_m (STSA-E: its estimate from the units);  P += sum_m P_m
//!          W^T = (G + lambda I)^-1 P;  argmax of cosines or of W h
//! ```
//! One round a task. Any partition over any number of clients gives STSA the same head, that of the ridge regression on
//! all data together. STSA-E's estimate is better with more units, so few clients cut their shards at random into units
//! (`federation.dummy_clients`). Its error can be measured: `diagnostics` compares its matrix, `head_error` its head
//! with those of all samples ([`head_error()`] says with which bound); no server could know either.
//!
//! The network is what a first method makes of the backbone in the first task (`[method.first]`: adapters on a
//! transformer and full training of a residual network, unless another is named), or the backbone as loaded
//! (`first = { name = "none" }`, and always on plain pixels); nothing trains after it.
//!
//! STSA's uploads are sums, so secure aggregation can hide them; STSA-E's server must see units one by one. Of the
//! paper's noise, E1 is `privacy.noise.on = ["sums"]`, E2 `["counts"]`, E3 `["statistics"]`.

mod class_sums;
mod config;
mod estimate;
mod exactness;
mod features;
mod head;
mod messages;
mod server;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

use crate::data::TaskView;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use rand::RngCore;

pub use class_sums::ClassSums;
pub use config::{
    Estimation, HeadMode, LambdaScale, OneUnit, Payload, StsaConfig, UnitCount, Variant,
};
pub use estimate::{UnitStatistics, estimate};
pub use exactness::{HeadError, Statistics, expected_square, head_error};
pub use head::RidgeHead;

use self::features::{Frozen, collect};
use self::server::StsaServer;
use super::Requirement;
use super::entry::MethodEntry;
use super::recipe::Recipe;
use crate::numerics::projection::Projection;
use crate::numerics::streams::{Domain, StreamKey};
use crate::numerics::symmetric::packed_len;
use crate::policy::{
    Capability, ClassDisclosure, ClientResult, CohortRule, Disclosures, ExchangeFacts, Failure,
    Member, MemoryFootprint, Message, MessageKind, MessageSpec, Method, MethodInspection,
    MethodProfile, ModelFacts, Phase, PolicyError, Restriction, RoundContext, RoundWork,
    RunContext, SampleCost, Server, Stage, WorkCost,
};
use crate::wire::Kind;

/// STSA or STSA-E for a model: settings, dimensions and the random layer.
#[derive(Clone)]
pub struct Stsa {
    /// Keys of the `[method]` table.
    pub config: StsaConfig,
    /// Width of the frozen features.
    dim: usize,
    classes: usize,
    /// Random layer that was used last. All clients draw the same layer, so a process computes it once.
    layer: Arc<Mutex<Option<RandomLayer>>>,
}

/// Random layer with its seed.
struct RandomLayer {
    seed: u64,
    projection: Arc<Projection>,
}

impl fmt::Debug for Stsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stsa { config, dim, classes, .. } = self;
        let mut debug = f.debug_struct("Stsa");
        debug.field("config", config).field("dim", dim).field("classes", classes);
        debug.finish_non_exhaustive()
    }
}

impl Stsa {
    /// Returns the method for a model of these dimensions.
    pub fn new(config: StsaConfig, facts: &ModelFacts) -> Stsa {
        Stsa { config, dim: facts.backbone.dim(), classes: facts.classes, layer: Arc::default() }
    }

    fn width(&self) -> usize {
        self.config.width as usize
    }

    /// Returns the memory of a server: triangle of `G`, `P^T` and head in f64.
    ///
    /// If heads are compared, an exact `G` and `P^T` are added.
    fn holdings(&self) -> MemoryFootprint {
        let (triangle, rows) = (packed_len(self.width()), self.classes * self.width());
        let compared = matches!(self.config.variant, Variant::Estimated(rule) if rule.head_error);
        let exact = if compared { triangle + rows } else { 0 };
        MemoryFootprint { server: 8 * (triangle + 2 * rows + exact) as u64, client: 0 }
    }

    /// Computes a client's upload from its samples.
    fn sums(&self, member: &Member, ctx: &RunContext) -> Result<ClientResult, PolicyError> {
        let view = &member.participant.view;
        let layer = self.layer(messages::seed_of(&member.download)?);
        let exact = matches!(self.config.variant, Variant::Exact { .. });
        let found = collect(ctx, &member.shard, view, &layer, exact)?;
        let upload = messages::upload(&self.statistics(view.rows.len()), &found)?;
        Ok(ClientResult { upload, metrics: Vec::new() })
    }

    /// Returns the random layer of a seed.
    fn layer(&self, seed: u64) -> Arc<Projection> {
        let mut last = self.layer.lock();
        match &*last {
            Some(layer) if layer.seed == seed => Arc::clone(&layer.projection),
            _ => {
                let projection = Arc::new(Projection::draw(seed, self.dim, self.width()));
                *last = Some(RandomLayer { seed, projection: Arc::clone(&projection) });
                projection
            }
        }
    }
}

impl Method for Stsa {
    fn server(&self, _ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        let seed = init.domain(Domain::Projection).rng().next_u64();
        Ok(Box::new(StsaServer::new(self.clone(), seed)))
    }

    fn profile(&self) -> MethodProfile {
        let task = "sums of features are placed at the head rows of one task";
        let lies = "sums of features cannot be forged: only a first method would be attacked";
        let mut restrictions = Restriction::against(&[Capability::MixedTasks], task);
        restrictions.extend(Restriction::against(&[Capability::MaliciousClients], lies));
        MethodProfile {
            restrictions,
            discloses: true,
            memory_footprint: Some(self.holdings()),
            ..MethodProfile::default()
        }
    }

    fn phases(&self, _stage: &Stage, _rounds: u32) -> Vec<Phase> {
        vec![Phase::new("statistics", 1, CohortRule::Holders)]
    }

    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        match message {
            MessageKind::Download => messages::down(),
            MessageKind::Upload | MessageKind::Contribution => {
                self.statistics(facts.view.rows.len())
            }
        }
    }

    /// Returns the cost of one forward pass per sample of a client, a third of a training pass.
    fn cost(&self, _round: &RoundContext, work: &RoundWork<'_>) -> f64 {
        match *work {
            RoundWork::Participant { samples, .. } => samples as f64 / 3.0,
            RoundWork::Server { .. } => 0.0,
        }
    }

    /// Returns the cost of a sample: backbone and random layer; at inference the head in addition.
    ///
    /// In a round, the exact variant adds the triangle of a client's Gram matrix. The server computes its Cholesky
    /// factor and two triangular systems for each class seen.
    fn sample_cost(&self, model: &ModelFacts, view: &TaskView, _phase: usize) -> SampleCost {
        let width = self.width();
        let forward = model.backbone.multiplications() + (self.dim * width) as f64;
        let inference = forward + (width * self.classes) as f64;
        let exact = matches!(self.config.variant, Variant::Exact { .. });
        let products = if exact { packed_len(width) as f64 } else { 0.0 };
        let (width, seen) = (width as f64, view.seen() as f64);
        let server = width.powi(3) / 3.0 + width * width * seen;
        let work = Some(WorkCost { client: forward + products, server });
        SampleCost { forward, backward: 0.0, inference, work }
    }

    /// Computes the sums of the clients of a pack, each in one pass without gradients.
    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let sums = |member: &Member| match member.shard.is_empty() {
            true => Err(Failure::NoData),
            false => Ok(self.sums(member, ctx)?),
        };
        members.iter().map(sums).collect()
    }

    fn inspection(&self) -> Option<&dyn MethodInspection> {
        Some(self)
    }
}

impl MethodInspection for Stsa {
    /// Returns the mean random features of classes, as an attack could compute them from an upload.
    ///
    /// They are sums divided by numbers of samples. STSA-E sends the numbers; for STSA those of the shard are used,
    /// which favors the attack.
    fn disclosures(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        let layer = self.layer(messages::seed_of(&member.download)?);
        let counts = ctx.shard_label_counts(&member.shard);
        let sums = upload.tensor(Kind::Statistics, messages::SUMS)?.numbers();
        let first = member.participant.view.rows.start;
        let class = |(at, sum): (usize, &[f64])| {
            let row = first + at;
            let samples = u64::from(*counts.get(&(row as u32)).filter(|count| **count > 0)?);
            let mean = sum.iter().map(|value| value / samples as f64).collect();
            Some(ClassDisclosure { row, samples, mean })
        };
        let classes: Vec<ClassDisclosure> =
            sums.chunks(self.width()).enumerate().filter_map(class).collect();
        let map = Frozen::of(ctx).random_features(&layer, &ctx.device)?;
        Ok((!classes.is_empty()).then_some(Disclosures::Means { map, classes }))
    }
}

impl Recipe for StsaConfig {
    fn build(&self, facts: &ModelFacts) -> Arc<dyn Method> {
        Arc::new(Stsa::new(*self, facts))
    }

    fn requirements(&self) -> Vec<Requirement> {
        let why = "every client with data of a task must send statistics, but a fresh population has no last client";
        vec![Requirement::returning_clients(why, None)]
    }
}

/// Returns STSA's entry of the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "Ridge head on random ReLU features of a frozen network, in closed form, from Gram matrices and class \
               sums that are added over clients and tasks; no gradients.",
        source: "STSA: Federated Class-Incremental Learning via Spatial-Temporal Statistics \
                 Aggregation, arXiv 2506.01327",
        state: "server: the sums and the head; client: nothing",
        on_features: true,
        lends_features: false,
        ..MethodEntry::of("stsa", StsaConfig::exact)
    }
}

/// Returns STSA-E's entry of the registry.
pub(super) fn estimating_entry() -> MethodEntry {
    MethodEntry {
        idea: "STSA whose clients only send class sums and counts: the server estimates the Gram matrix from the \
               scatter of the units' class means.",
        source: entry().source,
        state: entry().state,
        on_features: true,
        lends_features: false,
        ..MethodEntry::of("stsa-e", StsaConfig::estimated)
    }
}
