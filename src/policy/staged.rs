//! Composition: one method learns the features, another learns upon them.
//!
//! [`Staged`] runs the phases of its first method in the first task, freezes that method's
//! [`Predictor::features`], and from then on runs the second method, whose server and clients find
//! the frozen features as [`Lab::staged`]. So "STSA over LoRA" or "over prompts" is a line in a
//! scenario (`[method.first]`), not a method of its own.
//!
//! What a client needs to compute the features itself ([`Predictor::feature_state`]) is an
//! [`Asset`] named by every Down of the second method, shipped to whoever lacks it. As these features
//! never change again, they are computed once per sample and kept.
//!
//! In the first task the phases of the first method come first and those of the second follow.

mod bodies;
mod features;
mod server;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::bodies::{DIGEST_BYTES, join, malformed, split, stage_of};
use self::features::FrozenFeatures;
use self::server::StagedServer;
use super::{
    AnyMember, AnyMethod, AnyOutcome, AnyPart, AnyServer, AnyState, Asset, AssetSketch,
    ExchangeSketch, Failure, Field, Lab, ParameterAverage, Payload, Period, Phase, PolicyError,
    Predictor, SketchFacts, UpMeta, placed,
};
use crate::data::TaskView;
use crate::learning::TrainingPlan;
use crate::numerics::streams::StreamKey;
use crate::quantity::TaskId;
use crate::wire::{Body, BodySketch, Kind, WireError};

/// Two methods, one after the other.
#[derive(Clone)]
pub struct Staged {
    first: Arc<dyn AnyMethod>,
    then: Arc<dyn AnyMethod>,
    /// Rounds of the first method, where they differ from the scenario's.
    rounds: Option<u32>,
    shared: Arc<Shared>,
}

/// Name of the asset that holds the first method's features.
const FEATURES: &str = "features";

/// What the server and the clients of one run have in common.
#[derive(Default)]
struct Shared {
    /// Frozen features by the digest of their asset. In one process a client takes them from
    /// here; the asset is what it would have to receive, and what is charged.
    frozen: Mutex<BTreeMap<u64, Frozen>>,
    /// Rounds of the first method's last phase, as last planned.
    last_phase_rounds: AtomicU32,
}

#[derive(Clone)]
struct Frozen {
    features: Arc<dyn Predictor>,
    asset: Arc<Asset>,
}

impl Shared {
    fn freeze(&self, network: Arc<dyn Predictor>) -> Frozen {
        let asset = Asset::new(FEATURES, 0, Kind::Weights, network.feature_state());
        let features = Arc::new(FrozenFeatures::new(network, asset.digest()));
        let frozen = Frozen { features, asset: Arc::new(asset) };
        let mut all = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(frozen.asset.digest(), frozen.clone());
        frozen
    }

    fn find(&self, digest: u64) -> Option<Frozen> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
    }
}

/// Which of the two methods a payload belongs to, and the features it builds upon.
struct StagedDown {
    inner: Payload,
    /// `None` in the first stage.
    features: Option<Frozen>,
}

struct StagedUp {
    inner: Payload,
    second: bool,
}

struct StagedPart {
    inner: AnyPart,
    second: bool,
}

/// Both methods' states of one client.
struct StagedState {
    first: AnyState,
    then: AnyState,
}

impl Staged {
    /// `first` runs in the first task, `then` from its end on.
    pub fn new(first: Arc<dyn AnyMethod>, then: Arc<dyn AnyMethod>) -> Staged {
        Staged { first, then, rounds: None, shared: Arc::default() }
    }

    /// The same with so many rounds of the first method instead of the scenario's.
    pub fn with_rounds(self, rounds: Option<u32>) -> Staged {
        Staged { rounds, ..self }
    }

    /// How many phases the first method has in the first task; it may not depend on how many
    /// rounds they have.
    fn first_phases(&self, view: &Arc<TaskView>) -> usize {
        let period = Period::of(Arc::clone(view), 1);
        self.first.phases(&period, 1).len()
    }

    /// Whether a phase of a view belongs to the second method, and its index in its method.
    fn stage(&self, view: &Arc<TaskView>, phase: usize) -> (bool, usize) {
        let before = if view.task == TaskId(0) { self.first_phases(view) } else { 0 };
        match phase.checked_sub(before) {
            None => (false, phase),
            Some(phase) => (true, phase),
        }
    }

    fn method_of(&self, second: bool) -> &Arc<dyn AnyMethod> {
        if second { &self.then } else { &self.first }
    }

    fn lab_for(&self, down: &StagedDown, lab: &Lab) -> Result<Lab, PolicyError> {
        match &down.features {
            None => Ok(lab.clone()),
            Some(frozen) => with_features(lab, frozen),
        }
    }
}

fn with_features(lab: &Lab, frozen: &Frozen) -> Result<Lab, PolicyError> {
    Ok(Lab { staged: Some(placed(&frozen.features, lab)?), ..lab.clone() })
}

fn open<T: 'static>(payload: &Payload) -> &T {
    payload.downcast_ref().expect("payload belongs to the staged method")
}

fn state_of(state: &AnyState) -> &StagedState {
    state.downcast_ref().expect("state belongs to the staged method")
}

impl AnyMethod for Staged {
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn AnyServer>, PolicyError> {
        let first = self.first.server(lab, init)?;
        Ok(Box::new(StagedServer::new(self.clone(), first, lab, init)))
    }

    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        let mut phases = Vec::new();
        if period.task == TaskId(0) {
            phases = self.first.phases(period, self.rounds.unwrap_or(rounds));
            let limit = phases.last().map_or(0, |phase| phase.rounds.limit());
            self.shared.last_phase_rounds.store(limit, Ordering::Relaxed);
        }
        phases.extend(self.then.phases(period, rounds));
        phases
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let (second, phase) = self.stage(facts.view, facts.phase);
        let mut sketch = self.method_of(second).sketch(&SketchFacts { phase, ..facts.clone() });
        sketch.down.meta += if second { 1 + DIGEST_BYTES } else { 1 };
        sketch.up.meta += 1;
        sketch
    }

    fn feature_sketch(&self) -> BodySketch {
        self.first.feature_sketch()
    }

    fn asset_sketches(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        let (second, phase) = self.stage(facts.view, facts.phase);
        let inner = SketchFacts { phase, ..facts.clone() };
        let mut assets = self.method_of(second).asset_sketches(&inner);
        let features =
            AssetSketch { name: FEATURES, version: 0, body: self.first.feature_sketch() };
        assets.extend(second.then_some(features));
        assets
    }

    fn fields(&self) -> Vec<Field> {
        let mut fields = self.first.fields();
        fields.extend(self.then.fields());
        fields
    }

    fn charged(&self) -> bool {
        self.first.charged() || self.then.charged()
    }

    fn work(&self, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        // The task is not known here: the dearer of the two is the honest bound.
        self.first.work(phase, samples, plan).max(self.then.work(phase, samples, plan))
    }

    fn stateless(&self) -> bool {
        self.first.stateless() && self.then.stateless()
    }

    fn fresh_state(&self) -> AnyState {
        let (first, then) = (self.first.fresh_state(), self.then.fresh_state());
        Box::new(StagedState { first, then })
    }

    fn save_state(&self, state: &AnyState) -> Body {
        let state = state_of(state);
        join(self.first.save_state(&state.first), self.then.save_state(&state.then))
    }

    fn load_state(&self, saved: &Body) -> Result<AnyState, WireError> {
        let (first, then) = split(saved)?;
        let first = self.first.load_state(&first)?;
        Ok(Box::new(StagedState { first, then: self.then.load_state(&then)? }))
    }

    fn state_bytes(&self, state: &AnyState) -> u64 {
        let state = state_of(state);
        self.first.state_bytes(&state.first) + self.then.state_bytes(&state.then)
    }

    /// Neighbours of the same stage, upon the same features, stay together.
    fn train(&self, members: &mut [AnyMember], lab: &Lab) -> Vec<Result<AnyOutcome, Failure>> {
        let alike = |a: &AnyMember, b: &AnyMember| {
            let of = |member: &AnyMember| {
                let features = open::<StagedDown>(&member.down).features.as_ref();
                let stage = self.stage(&member.seat.view, member.phase);
                (stage, features.map(|frozen| frozen.asset.digest()))
            };
            of(a) == of(b)
        };
        let packs = members.chunk_by_mut(alike);
        packs.flat_map(|pack| self.train_stage(pack, lab)).collect()
    }

    fn largest_pack(&self, view: &Arc<TaskView>, phase: usize) -> usize {
        let (second, phase) = self.stage(view, phase);
        self.method_of(second).largest_pack(view, phase)
    }

    fn client_predictor(
        &self,
        down: &Payload,
        up: &Payload,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let (down, up) = (open::<StagedDown>(down), open::<StagedUp>(up));
        let lab = self.lab_for(down, lab)?;
        self.method_of(up.second).client_predictor(&down.inner, &up.inner, &lab)
    }

    fn pack_down(&self, down: &Payload) -> Body {
        let down = open::<StagedDown>(down);
        let mut body = self.method_of(down.features.is_some()).pack_down(&down.inner);
        let mut tag = vec![u8::from(down.features.is_some())];
        if let Some(frozen) = &down.features {
            tag.extend(frozen.asset.digest().to_le_bytes());
        }
        body.meta.splice(0..0, tag);
        body
    }

    fn down_assets(&self, down: &Payload) -> Vec<Arc<Asset>> {
        let down = open::<StagedDown>(down);
        let mut assets = self.method_of(down.features.is_some()).down_assets(&down.inner);
        assets.extend(down.features.iter().map(|frozen| Arc::clone(&frozen.asset)));
        assets
    }

    fn unpack_down(&self, body: &Body, assets: &[Arc<Asset>]) -> Result<Payload, WireError> {
        let (second, mut inner) = stage_of(body)?;
        if !second {
            let inner = self.first.unpack_down(&inner, assets)?;
            return Ok(Arc::new(StagedDown { inner, features: None }));
        }
        let digest = inner.meta.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let features = digest.and_then(|digest| self.shared.find(digest));
        let features = features.ok_or_else(|| malformed("names features nobody has frozen"))?;
        inner.meta.drain(..DIGEST_BYTES);
        // The last one is the features'.
        let inner = self.then.unpack_down(&inner, &assets[..assets.len().saturating_sub(1)])?;
        Ok(Arc::new(StagedDown { inner, features: Some(features) }))
    }

    fn pack_up(&self, up: &Payload) -> Body {
        let up = open::<StagedUp>(up);
        let mut body = self.method_of(up.second).pack_up(&up.inner);
        body.meta.insert(0, u8::from(up.second));
        body
    }

    fn unpack_up(&self, body: &Body) -> Result<Payload, WireError> {
        let (second, inner) = stage_of(body)?;
        Ok(Arc::new(StagedUp { inner: self.method_of(second).unpack_up(&inner)?, second }))
    }

    fn lift(&self, down: &Payload, up: &Body, meta: &UpMeta) -> Result<AnyPart, PolicyError> {
        let (second, inner) = stage_of(up)?;
        let down = open::<StagedDown>(down);
        let inner = self.method_of(second).lift(&down.inner, &inner, meta)?;
        Ok(Box::new(StagedPart { inner, second }))
    }

    fn merge(&self, earlier: AnyPart, later: AnyPart) -> AnyPart {
        let (earlier, later) = (part_of(earlier), part_of(later));
        let second = earlier.second;
        let inner = self.method_of(second).merge(earlier.inner, later.inner);
        Box::new(StagedPart { inner, second })
    }

    fn not_a_sum(&self) -> Option<String> {
        self.first.not_a_sum().or_else(|| self.then.not_a_sum())
    }

    fn summand(&self, down: &Payload, up: &Payload, meta: &UpMeta) -> Result<Body, PolicyError> {
        let (down, up) = (open::<StagedDown>(down), open::<StagedUp>(up));
        let mut body = self.method_of(up.second).summand(&down.inner, &up.inner, meta)?;
        body.meta.insert(0, u8::from(up.second));
        Ok(body)
    }

    fn part_of_sum(&self, sum: &Body) -> Result<AnyPart, PolicyError> {
        let (second, inner) = stage_of(sum)?;
        let inner = self.method_of(second).part_of_sum(&inner)?;
        Ok(Box::new(StagedPart { inner, second }))
    }

    fn not_averaged(&self) -> Option<String> {
        self.first.not_averaged().or_else(|| self.then.not_averaged())
    }

    fn average<'a>(&self, part: &'a mut AnyPart) -> Option<&'a mut ParameterAverage> {
        let part: &mut StagedPart = part.downcast_mut().expect("part belongs to the staged method");
        self.method_of(part.second).average(&mut part.inner)
    }

    fn changed(
        &self,
        down: &Payload,
        up: &Payload,
        change: &mut dyn FnMut(f32, f32) -> f32,
    ) -> Result<Payload, PolicyError> {
        let (down, up) = (open::<StagedDown>(down), open::<StagedUp>(up));
        let inner = self.method_of(up.second).changed(&down.inner, &up.inner, change)?;
        Ok(Arc::new(StagedUp { inner, second: up.second }))
    }

    fn not_late(&self) -> Option<String> {
        self.first.not_late().or_else(|| self.then.not_late())
    }

    fn not_mixed(&self) -> Option<String> {
        Some("the task of a round says which of two methods learns".to_string())
    }

    fn symmetric(&self) -> Vec<&'static str> {
        let mut names = self.first.symmetric();
        names.extend(self.then.symmetric());
        names
    }
}

impl Staged {
    /// Members of one stage, upon the same features.
    fn train_stage(
        &self,
        members: &mut [AnyMember],
        lab: &Lab,
    ) -> Vec<Result<AnyOutcome, Failure>> {
        let Some(first) = members.first() else { return Vec::new() };
        let (second, phase) = self.stage(&first.seat.view, first.phase);
        let lab = match self.lab_for(open::<StagedDown>(&first.down), lab) {
            Ok(lab) => lab,
            Err(error) => {
                let failure = Failure::from(error);
                return members.iter().map(|_| Err(failure.clone())).collect();
            }
        };
        let mut inner: Vec<AnyMember> = members
            .iter_mut()
            .map(|member| AnyMember {
                seat: member.seat.clone(),
                phase,
                down: Arc::clone(&open::<StagedDown>(&member.down).inner),
                state: std::mem::replace(own_state(&mut member.state, second), Box::new(())),
                shard: Arc::clone(&member.shard),
                key: member.key,
                missed: member.missed.clone(),
            })
            .collect();
        let mut outcomes = self.method_of(second).train(&mut inner, &lab).into_iter();
        let outer = members.iter_mut().zip(inner).map(|(member, inner)| {
            *own_state(&mut member.state, second) = inner.state;
            let nobody = || Err(Failure::Policy("no outcome for a seat".into()));
            let AnyOutcome { up, metrics } = outcomes.next().unwrap_or_else(nobody)?;
            Ok(AnyOutcome { up: Arc::new(StagedUp { inner: up, second }), metrics })
        });
        outer.collect()
    }
}

fn own_state(state: &mut AnyState, second: bool) -> &mut AnyState {
    let state: &mut StagedState = state.downcast_mut().expect("state belongs to the staged method");
    if second { &mut state.then } else { &mut state.first }
}

fn part_of(part: AnyPart) -> StagedPart {
    *part.downcast().expect("part belongs to the staged method")
}
