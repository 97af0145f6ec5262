//! Composition: one method trains the features, another trains on them.
//!
//! [`Composed`] runs the phases of its first method in the first task, freezes that method's [`Predictor::features`],
//! and from then on runs the second method, whose server and clients find the frozen features as
//! [`RunContext::first_method`]. So "STSA over LoRA" or "over prompts" is a line in a scenario (`[method.first]`), not
//! a separate method.
//!
//! The state that a client needs to compute the features itself ([`Predictor::feature_state`]) is an [`Asset`] named by
//! every download of the second method and shipped to each client that lacks it. As these features never change again,
//! they are computed once per sample and kept.
//!
//! In the first task the phases of the first method come first and those of the second follow. The control fields of
//! every message begin with a tag that says which of the two it belongs to; a download of the second stage names the
//! features by their digest behind it.

mod bodies;
mod features;
mod server;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use self::bodies::{DIGEST_BYTES, join, malformed, split};
use self::features::FrozenFeatures;
use self::server::{ComposedServer, FIRST, saved_parts};
use super::{
    Asset, AssetSpec, Capability, ClientResult, Disclosures, ExchangeFacts, Failure,
    GeneratedImages, ImageRequest, Member, MemoryFootprint, Message, MessageKind, MessageSpec,
    Method, MethodInspection, MethodProfile, ModelFacts, Participant, Phase, PolicyError,
    Predictor, Restriction, RoundContext, RoundWork, RunContext, SampleCost, Server, Stage,
    predictor_on,
};
use crate::data::TaskView;
use crate::numerics::streams::StreamKey;
use crate::quantity::{ClientId, TaskId};
use crate::wire::{Body, BodyShape, Kind, WireError};

/// Two methods, one after the other.
#[derive(Clone)]
pub struct Composed {
    first: Arc<dyn Method>,
    then: Arc<dyn Method>,
    /// Profile of both methods together.
    profile: MethodProfile,
    /// Rounds of the first method, where they differ from the scenario's.
    rounds: Option<u32>,
    /// Frozen features by the digest of their asset. In one process a client takes them from
    /// here; the asset is what it would have to receive, and what is charged.
    frozen: Arc<Mutex<BTreeMap<u64, FrozenExtractor>>>,
}

/// Name of the asset that holds the first method's features.
const FEATURES: &str = "features";

/// Bytes of the tag.
const TAG: usize = 1;

#[derive(Clone)]
struct FrozenExtractor {
    features: Arc<dyn Predictor>,
    asset: Arc<Asset>,
    /// Saved state of the first server, from which another process freezes the same features.
    server: Arc<Body>,
}

impl Composed {
    /// Creates the composition: `first` runs in the first task, `then` from its end on.
    pub fn new(first: Arc<dyn Method>, then: Arc<dyn Method>) -> Composed {
        let profile = composed(first.profile(), then.profile());
        Composed { first, then, profile, rounds: None, frozen: Arc::default() }
    }

    /// Returns a copy with `rounds` rounds of the first method instead of the scenario's.
    pub fn with_rounds(self, rounds: Option<u32>) -> Composed {
        Composed { rounds, ..self }
    }

    /// Freezes the features of the first method's server as they stand.
    fn freeze(&self, first: &dyn Server, ctx: &RunContext) -> Result<FrozenExtractor, PolicyError> {
        let network = first.predictor(ctx)?;
        let asset = Asset::new(FEATURES, 0, Kind::Weights, network.feature_state());
        let features = Arc::new(FrozenFeatures::new(network, asset.digest()));
        let (asset, server) = (Arc::new(asset), Arc::new(first.save()));
        let frozen = FrozenExtractor { features, asset, server };
        let mut all = self.frozen.lock();
        all.insert(frozen.asset.digest(), frozen.clone());
        Ok(frozen)
    }

    /// Returns the number of phases of the first method in the first task.
    ///
    /// It must not depend on the scenario's number of rounds.
    fn first_phases(&self, view: &TaskView) -> usize {
        let stage = Stage::of(Arc::new(view.clone()), 1);
        self.first.phases(&stage, 1).len()
    }

    /// Returns true if a phase of a view belongs to the second method, and the phase's index in its method.
    fn stage(&self, view: &TaskView, phase: usize) -> (bool, usize) {
        let before = if view.task == TaskId(0) { self.first_phases(view) } else { 0 };
        match phase.checked_sub(before) {
            None => (false, phase),
            Some(phase) => (true, phase),
        }
    }

    /// Returns the round as its method counts phases, and true if that is the second one.
    fn round_of(&self, round: &RoundContext, work: &RoundWork<'_>) -> (bool, RoundContext) {
        let view = match work {
            RoundWork::Participant { participant, .. } => &participant.view,
            RoundWork::Server { .. } => &round.stage.view,
        };
        let (second, phase) = self.stage(view, round.phase);
        (second, RoundContext { phase, ..round.clone() })
    }

    fn method_of(&self, second: bool) -> &dyn Method {
        if second { &*self.then } else { &*self.first }
    }

    /// Returns the features that a download names; none in the first stage.
    fn named(&self, download: &Message) -> Result<Option<FrozenExtractor>, WireError> {
        if !is_second(download)? {
            return Ok(None);
        }
        let digest = download.control[TAG..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let all = self.frozen.lock();
        let found = digest.and_then(|digest| all.get(&digest).cloned());
        found.map(Some).ok_or_else(|| malformed("names features that no job has frozen"))
    }

    /// Returns a member as the first or the second method sees it.
    fn inner_member(
        &self,
        member: &Member,
        second: bool,
        phase: usize,
    ) -> Result<Member, PolicyError> {
        let (first, then) = both(&member.state)?;
        Ok(Member {
            participant: member.participant.clone(),
            phase,
            download: Arc::new(down_within(&member.download)?),
            state: if second { then } else { first },
            shard: Arc::clone(&member.shard),
            key: member.key,
            missed: member.missed.clone(),
        })
    }

    fn train_alike(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Result<Vec<Result<ClientResult, Failure>>, PolicyError> {
        let Some(first) = members.first() else { return Ok(Vec::new()) };
        let (second, phase) = self.stage(&first.participant.view, first.phase);
        let ctx = match self.named(&first.download)? {
            None => ctx.clone(),
            Some(frozen) => with_features(ctx, &frozen)?,
        };
        let mut inner = Vec::with_capacity(members.len());
        for member in &*members {
            inner.push(self.inner_member(member, second, phase)?);
        }
        let mut outcomes = self.method_of(second).train(&mut inner, &ctx).into_iter();
        let outer = members.iter_mut().zip(inner).map(|(member, inner)| {
            if !self.profile.stateless {
                let (first, then) = both(&member.state).map_err(PolicyError::from)?;
                member.state =
                    if second { join(first, inner.state) } else { join(inner.state, then) };
            }
            let no_outcome = || Err(Failure::Policy("no outcome for a participant".into()));
            let ClientResult { mut upload, metrics } =
                outcomes.next().unwrap_or_else(no_outcome)?;
            upload.control.insert(0, u8::from(second));
            Ok(ClientResult { upload, metrics })
        });
        Ok(outer.collect())
    }
}

/// Returns the profile of two methods, one after the other. Every field is named, so that a new one cannot be
/// forgotten.
fn composed(first: MethodProfile, then: MethodProfile) -> MethodProfile {
    // A role that both have is called as the first calls it.
    let mut roles = first.roles;
    for (role, word) in then.roles {
        if roles.iter().all(|(known, _)| *known != role) {
            roles.push((role, word));
        }
    }
    let mut restrictions = first.restrictions;
    restrictions.extend(then.restrictions);
    restrictions.retain(|restriction| restriction.service != Capability::MixedTasks);
    let why = "the task of a round says which of two methods learns";
    restrictions.push(Restriction { service: Capability::MixedTasks, why });
    // The server holds the first method's features even if that method does not report its memory.
    let features = MemoryFootprint { server: tensor_bytes(&first.features), client: 0 };
    let of_first = first.memory_footprint.unwrap_or(features);
    let both = |then: MemoryFootprint| MemoryFootprint {
        server: of_first.server + then.server,
        client: of_first.client + then.client,
    };
    MethodProfile {
        roles,
        restrictions,
        features: first.features,
        uses_network: first.uses_network || then.uses_network,
        stateless: first.stateless && then.stateless,
        discloses: first.discloses || then.discloses,
        memory_footprint: then.memory_footprint.map(both),
    }
}

/// Returns the bytes of all tensors of a body in f32.
fn tensor_bytes(body: &BodyShape) -> u64 {
    let tensors = body.sections.iter().flat_map(|section| &section.tensors);
    tensors.map(|tensor| 4 * tensor.elements()).sum()
}

fn with_features(ctx: &RunContext, frozen: &FrozenExtractor) -> Result<RunContext, PolicyError> {
    Ok(RunContext { first_method: Some(predictor_on(&frozen.features, ctx)?), ..ctx.clone() })
}

/// Returns true if a message belongs to the second method.
fn is_second(message: &Message) -> Result<bool, WireError> {
    match message.control.first() {
        Some(tag @ (0 | 1)) => Ok(*tag == 1),
        _ => Err(malformed("does not say which of the two methods it belongs to")),
    }
}

/// Returns an upload without its tag.
fn up_within(message: &Message) -> Result<Message, WireError> {
    is_second(message)?;
    Ok(Message { control: message.control[TAG..].to_vec(), ..message.clone() })
}

/// Returns a download without its tag and the digest of its features.
fn down_within(message: &Message) -> Result<Message, WireError> {
    let mut inner = message.clone();
    let before = match is_second(message)? {
        false => TAG,
        true => {
            // The features are the last asset.
            inner.assets.pop();
            TAG + DIGEST_BYTES
        }
    };
    let cut = || malformed("is cut short");
    inner.control = message.control.get(before..).ok_or_else(cut)?.to_vec();
    Ok(inner)
}

/// Returns both methods' states of one client.
fn both(state: &Body) -> Result<(Body, Body), WireError> {
    match state.meta.is_empty() {
        true => Ok(<(Body, Body)>::default()),
        false => split(state),
    }
}

impl Method for Composed {
    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        let first = self.first.server(ctx, init)?;
        Ok(Box::new(ComposedServer::new(self.clone(), first, ctx, init)))
    }

    fn phases(&self, stage: &Stage, rounds: u32) -> Vec<Phase> {
        let mut phases = Vec::new();
        if stage.task == TaskId(0) {
            phases = self.first.phases(stage, self.rounds.unwrap_or(rounds));
        }
        phases.extend(self.then.phases(stage, rounds));
        phases
    }

    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant> {
        let (second, phase) = self.stage(&round.stage.view, round.phase);
        self.method_of(second).participants(&RoundContext { phase, ..round.clone() }, cohort)
    }

    fn profile(&self) -> MethodProfile {
        self.profile.clone()
    }

    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let (second, phase) = self.stage(facts.view, facts.phase);
        let facts = ExchangeFacts { phase, ..facts.clone() };
        let mut layout = self.method_of(second).message_spec(message, &facts);
        // The methods count phases from 0 each.
        layout.assets.iter_mut().for_each(|asset| asset.renewed_in = None);
        let tag = u8::from(second);
        match message {
            MessageKind::Download => {
                let before = if second { TAG + DIGEST_BYTES } else { TAG };
                layout.control.splice(0..0, std::iter::repeat_n(tag, before));
                let body = self.profile.features.clone();
                let features = AssetSpec { name: FEATURES, version: 0, body, renewed_in: None };
                layout.assets.extend(second.then_some(features));
            }
            MessageKind::Upload => layout.control.insert(0, tag),
            MessageKind::Contribution => {}
        }
        layout
    }

    fn transform_upload(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        let (second, phase) = self.stage(facts.view, facts.phase);
        if is_second(&update)? != second {
            return Err(malformed("answers the other of the two methods").into());
        }
        let (sent, update) = (down_within(sent)?, up_within(&update)?);
        self.method_of(second).transform_upload(
            &ExchangeFacts { phase, ..facts.clone() },
            &sent,
            update,
        )
    }

    fn cost(&self, round: &RoundContext, work: &RoundWork<'_>) -> f64 {
        let (second, round) = self.round_of(round, work);
        self.method_of(second).cost(&round, work)
    }

    fn sample_cost(&self, model: &ModelFacts, view: &TaskView, phase: usize) -> SampleCost {
        let (second, phase) = self.stage(view, phase);
        self.method_of(second).sample_cost(model, view, phase)
    }

    fn state_bytes(&self, state: &Body) -> Result<u64, WireError> {
        let (first, then) = both(state)?;
        Ok(self.first.state_bytes(&first)? + self.then.state_bytes(&then)?)
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let alike = |a: &Member, b: &Member| {
            let of = |member: &Member| {
                let features = self.named(&member.download).ok().flatten();
                let stage = self.stage(&member.participant.view, member.phase);
                (stage, features.map(|frozen| frozen.asset.digest()))
            };
            of(a) == of(b)
        };
        let packs = members.chunk_by_mut(alike);
        packs
            .flat_map(|pack| {
                let members = pack.len();
                let trained = self.train_alike(pack, ctx);
                trained.unwrap_or_else(|error| Failure::of_all(members, error))
            })
            .collect()
    }

    fn remote_state(&self, download: &Message) -> Option<Arc<Body>> {
        Some(self.named(download).ok()??.server)
    }

    fn load_remote_state(
        &self,
        background: &Body,
        ctx: &RunContext,
        init: StreamKey,
    ) -> Result<(), PolicyError> {
        let mut first = self.first.server(ctx, init)?;
        first.load(background)?;
        self.freeze(&*first, ctx).map(drop)
    }

    fn inspection(&self) -> Option<&dyn MethodInspection> {
        Some(self)
    }
}

impl MethodInspection for Composed {
    fn local_model(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        own: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let (second, phase) = self.stage(facts.view, facts.phase);
        let ctx = match self.named(sent)? {
            None => ctx.clone(),
            Some(frozen) => with_features(ctx, &frozen)?,
        };
        let (sent, own) = (down_within(sent)?, up_within(own)?);
        let facts = ExchangeFacts { phase, ..facts.clone() };
        match self.method_of(second).inspection() {
            Some(method) => method.local_model(&facts, &sent, &own, &ctx),
            None => Ok(None),
        }
    }

    fn disclosures(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        let (second, phase) = self.stage(&member.participant.view, member.phase);
        let ctx = match self.named(&member.download)? {
            None => ctx.clone(),
            Some(frozen) => with_features(ctx, &frozen)?,
        };
        let inner = self.inner_member(member, second, phase)?;
        let found = match self.method_of(second).inspection() {
            Some(method) => method.disclosures(&inner, &up_within(upload)?, &ctx)?,
            None => None,
        };
        // What the second method sends of classes shows more than how the first one moved parameters.
        let is_shown = |found: &Disclosures| {
            second || matches!(found, Disclosures::Means { .. }) || !self.then.profile().discloses
        };
        Ok(found.filter(is_shown))
    }

    fn generated_images(
        &self,
        model: &ModelFacts,
        saved: &Body,
        request: &ImageRequest<'_>,
    ) -> Result<Option<GeneratedImages>, PolicyError> {
        let (method, saved) = match saved_parts(saved)? {
            (FIRST, first, _) => (&self.first, first),
            (_, _, then) => (&self.then, then),
        };
        match method.inspection() {
            Some(method) => method.generated_images(model, &saved, request),
            None => Ok(None),
        }
    }
}
