//! What the engine sees of a method: the same traits without types.

use std::any::Any;
use std::sync::Arc;

use super::{
    Asset, AssetSketch, ExchangeSketch, Failure, Field, Lab, MissedTask, Next, ParameterAverage,
    Period, Phase, PolicyError, Predictor, RoundContext, Seat, SketchFacts, UpMeta,
};
use super::{additive, averaged};
use crate::data::{Shard, TaskView};
use crate::learning::TrainingPlan;
use crate::numerics::streams::StreamKey;
use crate::quantity::ClientId;
use crate::wire::{Body, BodySketch, WireError};

/// A Down or an Up whose type only the method knows.
pub type Payload = Arc<dyn Any + Send + Sync>;

/// A client's state whose type only the method knows.
pub type AnyState = Box<dyn Any + Send>;

/// A part whose type only the method knows.
pub type AnyPart = Box<dyn Any + Send>;

/// One seat of a pack, erased.
pub struct AnyMember {
    /// The seat.
    pub seat: Seat,
    /// Index of the phase.
    pub phase: usize,
    /// The Down.
    pub down: Payload,
    /// The client's state, updated in place.
    pub state: AnyState,
    /// The seat's samples.
    pub shard: Shard,
    /// The address of everything drawn here.
    pub key: StreamKey,
    /// Tasks the client held data of since the last contact.
    pub missed: Vec<MissedTask>,
}

/// What a seat sends back, erased.
pub struct AnyOutcome {
    /// The Up.
    pub up: Payload,
    /// Figures for the journal.
    pub metrics: Vec<(&'static str, f64)>,
}

/// A [`Method`](super::Method) without its types.
pub trait AnyMethod: Send + Sync {
    /// See [`Method::server`](super::Method::server).
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn AnyServer>, PolicyError>;
    /// See [`Method::phases`](super::Method::phases).
    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase>;
    /// See [`Method::sketch`](super::Method::sketch).
    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch;
    /// See [`Method::feature_sketch`](super::Method::feature_sketch).
    fn feature_sketch(&self) -> BodySketch {
        BodySketch::default()
    }
    /// See [`Method::asset_sketches`](super::Method::asset_sketches).
    fn asset_sketches(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        let _ = facts;
        Vec::new()
    }
    /// See [`Method::fields`](super::Method::fields).
    fn fields(&self) -> Vec<Field>;
    /// See [`Method::charged`](super::Method::charged).
    fn charged(&self) -> bool;
    /// See [`Method::work`](super::Method::work).
    fn work(&self, phase: usize, samples: usize, plan: &TrainingPlan) -> f64;
    /// Whether clients keep nothing between rounds.
    fn stateless(&self) -> bool;
    /// A client's state before its first round.
    fn fresh_state(&self) -> AnyState;
    /// See [`ClientState::save`](super::ClientState::save).
    fn save_state(&self, state: &AnyState) -> Body;
    /// See [`ClientState::load`](super::ClientState::load).
    fn load_state(&self, saved: &Body) -> Result<AnyState, WireError>;
    /// See [`ClientState::kept_bytes`](super::ClientState::kept_bytes).
    fn state_bytes(&self, state: &AnyState) -> u64 {
        self.save_state(state).tensors().map(|(_, tensor)| tensor.values().bytes()).sum()
    }
    /// See [`ClientPolicy::train`](super::ClientPolicy::train); the members keep their (updated) states.
    fn train(&self, members: &mut [AnyMember], lab: &Lab) -> Vec<Result<AnyOutcome, Failure>>;
    /// See [`ClientPolicy::largest_pack`](super::ClientPolicy::largest_pack); of a phase of the period with this view.
    fn largest_pack(&self, view: &Arc<TaskView>, phase: usize) -> usize;
    /// See [`ClientPolicy::predictor`](super::ClientPolicy::predictor).
    fn client_predictor(
        &self,
        down: &Payload,
        up: &Payload,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError>;
    /// The body of a Down.
    fn pack_down(&self, down: &Payload) -> Body;
    /// The assets a Down names.
    fn down_assets(&self, down: &Payload) -> Vec<Arc<Asset>>;
    /// A Down from its body and the assets it named.
    fn unpack_down(&self, body: &Body, assets: &[Arc<Asset>]) -> Result<Payload, WireError>;
    /// The body of an Up.
    fn pack_up(&self, up: &Payload) -> Body;
    /// An Up from its body.
    fn unpack_up(&self, body: &Body) -> Result<Payload, WireError>;
    /// See [`Method::lift`](super::Method::lift); `up` arrives as its body.
    fn lift(&self, down: &Payload, up: &Body, meta: &UpMeta) -> Result<AnyPart, PolicyError>;
    /// See [`Part::merge`](super::Part::merge).
    fn merge(&self, earlier: AnyPart, later: AnyPart) -> AnyPart;
    /// Why the server must see each upload, naming the field; `None` where uploads are plain sums
    /// (see [`Additive`](super::Additive)).
    fn not_a_sum(&self) -> Option<String> {
        Some(additive::UNMARKED.to_string())
    }
    /// See [`Additive::summand`](super::Additive::summand).
    fn summand(&self, down: &Payload, up: &Payload, meta: &UpMeta) -> Result<Body, PolicyError> {
        let _ = (down, up, meta);
        Err(no_sum(additive::UNMARKED))
    }
    /// See [`Additive::part`](super::Additive::part).
    fn part_of_sum(&self, sum: &Body) -> Result<AnyPart, PolicyError> {
        let _ = sum;
        Err(no_sum(additive::UNMARKED))
    }
    /// Why uploads do not fold to one mean of parameters, naming the field that is kept; `None` where they
    /// do (see [`Averaged`](super::Averaged)).
    fn not_averaged(&self) -> Option<String> {
        Some(averaged::UNMARKED.to_string())
    }
    /// See [`Averaged::average`](super::Averaged::average); nothing for methods that are not averaged.
    fn average<'a>(&self, part: &'a mut AnyPart) -> Option<&'a mut ParameterAverage> {
        let _ = part;
        None
    }
    /// See [`Averaged::changed`](super::Averaged::changed).
    fn changed(
        &self,
        down: &Payload,
        up: &Payload,
        change: &mut dyn FnMut(f32, f32) -> f32,
    ) -> Result<Payload, PolicyError> {
        let _ = (down, up, change);
        Err(no_mean(averaged::UNMARKED))
    }
    /// Why its uploads cannot be folded into a later round; none where they can.
    fn not_late(&self) -> Option<String>;
    /// Why seats of one round cannot learn different tasks; none where they can.
    fn not_mixed(&self) -> Option<String>;

    /// See [`Method::symmetric`](super::Method::symmetric).
    fn symmetric(&self) -> Vec<&'static str> {
        Vec::new()
    }
}

/// A [`ServerPolicy`](super::ServerPolicy) without its types.
pub trait AnyServer: Send {
    /// See [`ServerPolicy::begin_period`](super::ServerPolicy::begin_period).
    fn begin_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError>;
    /// See [`ServerPolicy::seats`](super::ServerPolicy::seats).
    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat>;
    /// See [`ServerPolicy::broadcast`](super::ServerPolicy::broadcast).
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        lab: &Lab,
    ) -> Result<Vec<Payload>, PolicyError>;
    /// See [`ServerPolicy::end_round`](super::ServerPolicy::end_round).
    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<AnyPart>,
        lab: &Lab,
    ) -> Result<Next, PolicyError>;
    /// See [`ServerPolicy::end_period`](super::ServerPolicy::end_period).
    fn end_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError>;
    /// See [`ServerPolicy::predictor`](super::ServerPolicy::predictor).
    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError>;
    /// See [`ServerPolicy::figures`](super::ServerPolicy::figures).
    fn figures(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
    /// See [`ServerPolicy::save`](super::ServerPolicy::save).
    fn save(&self) -> Body;
    /// See [`ServerPolicy::load`](super::ServerPolicy::load).
    fn load(&mut self, saved: &Body) -> Result<(), WireError>;
}

pub(super) fn no_sum(why: &str) -> PolicyError {
    PolicyError::Unsupported(format!("uploads are no plain sums: {why}"))
}

pub(super) fn no_mean(why: &str) -> PolicyError {
    PolicyError::Unsupported(format!("uploads fold to no mean of parameters: {why}"))
}
