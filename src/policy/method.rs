//! The traits a method implements: [`Method`], its [`ServerPolicy`] and its [`ClientPolicy`].

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::additive::UNMARKED;
use super::averaged;
use super::{
    Additive, AssetSketch, Averaged, ExchangeSketch, Field, Lab, Message, Part, Period, Phase,
    PolicyError, Predictor, RoundContext, Seat, SketchFacts,
};
use crate::data::Shard;
use crate::learning::TrainingPlan;
use crate::numerics::streams::StreamKey;
use crate::quantity::{ClientId, Round, SeatId, TaskId};
use crate::wire::{Body, BodySketch, WireError};

/// A federated method: configuration plus the types and policies that make it up.
pub trait Method: Send + Sync + Sized + 'static {
    /// Server to client.
    type Down: Message;
    /// Client to server.
    type Up: Message;
    /// What is left of an Up on the server until the round closes.
    type Part: Part;
    /// What a client keeps between rounds; `()` for stateless methods.
    type State: ClientState;
    /// The server's half.
    type Server: ServerPolicy<Self>;
    /// The client's half.
    type Client: ClientPolicy<Self>;

    /// The server at the start of a run. `init` addresses its initial draws.
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Self::Server, PolicyError>;

    /// The client's half; one value serves every client.
    fn client(&self) -> Self::Client;

    /// The phases of a period. `rounds` is the scenario's `federation.rounds`.
    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        let _ = period;
        vec![Phase::train(rounds)]
    }

    /// Shapes of one exchange, without data or weights.
    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch;

    /// The assets that the Downs of this exchange name, in order.
    fn asset_sketches(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        let _ = facts;
        Vec::new()
    }

    /// Shape of what a client must hold to compute this method's features
    /// ([`Predictor::feature_state`]), for methods that may be the first of two.
    fn feature_sketch(&self) -> BodySketch {
        BodySketch::default()
    }

    /// How each field of an Up is folded.
    fn fields(&self) -> &'static [Field];

    /// Reduces one upload to its part. Pure; runs as a device job, in any order.
    fn lift(
        &self,
        down: &Self::Down,
        up: Self::Up,
        meta: &UpMeta,
    ) -> Result<Self::Part, PolicyError>;

    /// This method as one whose uploads may be summed in secret, or the reason why the server
    /// must see each of them.
    fn additive(&self) -> Result<&dyn Additive<Self>, &'static str> {
        Err(UNMARKED)
    }

    /// This method as one whose uploads fold to one weighted mean of parameters, or the reason why
    /// they do not.
    fn averaged(&self) -> Result<&dyn Averaged<Self>, &'static str> {
        Err(averaged::UNMARKED)
    }

    /// Whether an upload may be folded into a later round than the one that asked for it, its
    /// [discount](UpMeta::discount) applied by [`lift`](Method::lift), or the reason why not.
    fn late(&self) -> Result<(), &'static str> {
        Err("the method does not say what a late upload is worth")
    }

    /// Whether seats of one round may learn different tasks, or the reason why not. The round's
    /// [`Period`] is that of the newest of them.
    fn mixed(&self) -> Result<(), &'static str> {
        Err("the method does not say that seats of one round may learn different tasks")
    }

    /// Names of tensors of an Up that are symmetric matrices; noise on them stays symmetric.
    fn symmetric(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether its messages cross a network; a method of a single site pays for none.
    fn charged(&self) -> bool {
        true
    }

    /// Sample passes a seat computes in a round, for virtual time: a forward and a backward of
    /// one sample is 1.
    fn work(&self, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        let _ = phase;
        samples as f64 * plan.epochs as f64
    }
}

/// What the server knows about an upload beside its content.
#[derive(Clone, Debug)]
pub struct UpMeta {
    /// The seat that sent it.
    pub seat: Seat,
    /// The round its Down belonged to.
    pub base: Round,
    /// Aggregations since then; 0 in synchronous runs.
    pub staleness: u32,
    /// What staleness leaves of its weight; 1 where nothing is stale.
    pub discount: f64,
}

impl UpMeta {
    /// An upload of the round that asked for it.
    pub fn timely(seat: Seat, base: Round) -> UpMeta {
        UpMeta { seat, base, staleness: 0, discount: 1.0 }
    }
}

/// Whether a phase goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Until its rounds are used up.
    Continue,
    /// Ends now (phases of at most so many rounds).
    EndPhase,
}

/// The server's half of a method.
pub trait ServerPolicy<M: Method>: Send + 'static {
    /// A task arrives.
    fn begin_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        let _ = (period, lab);
        Ok(())
    }

    /// The seats of a round, from its cohort (sorted by client). One per client by default.
    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        one_seat_each(&round.period, cohort)
    }

    /// One Down per seat, in seat order; share one `Arc` where all are equal
    /// (see [`shared`](super::shared)).
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        lab: &Lab,
    ) -> Result<Vec<Arc<M::Down>>, PolicyError>;

    /// The round closes; `folded` is `None` where nothing arrived.
    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<M::Part>,
        lab: &Lab,
    ) -> Result<Next, PolicyError>;

    /// All phases of the period are over.
    fn end_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        let _ = (period, lab);
        Ok(())
    }

    /// The global model as it stands.
    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError>;

    /// Named figures of the last round for the journal (what was solved, estimated, chosen), in a
    /// fixed order.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Everything a resumed run needs; its digest is journalled after every round.
    fn save(&self) -> Body;

    /// The inverse of [`save`](ServerPolicy::save).
    fn load(&mut self, saved: &Body) -> Result<(), WireError>;
}

/// The default seating: one seat per client.
pub fn one_seat_each(period: &Period, cohort: &[ClientId]) -> Vec<Seat> {
    cohort
        .iter()
        .enumerate()
        .map(|(place, client)| Seat {
            id: SeatId(place as u32),
            client: *client,
            role: Default::default(),
            unit: None,
            kind: Default::default(),
            view: period.view_of(*client),
        })
        .collect()
}

/// The same Down for every seat.
pub fn shared<D>(down: D, seats: &[Seat]) -> Vec<Arc<D>> {
    let down = Arc::new(down);
    vec![down; seats.len()]
}

/// What a client keeps between rounds.
pub trait ClientState: Default + Send + 'static {
    /// `true` for methods that keep nothing; `()` alone should say so.
    const STATELESS: bool = false;
    /// For checkpoints and for the memory charged to the client.
    fn save(&self) -> Body;
    /// The inverse of [`save`](ClientState::save).
    fn load(saved: &Body) -> Result<Self, WireError>;
    /// Bytes that a client must keep in memory or on disk; by default those of the tensors of
    /// [`save`](ClientState::save).
    fn kept_bytes(&self) -> u64 {
        self.save().tensors().map(|(_, tensor)| tensor.values().bytes()).sum()
    }
}

impl ClientState for () {
    const STATELESS: bool = true;
    fn save(&self) -> Body {
        Body::default()
    }
    fn load(_saved: &Body) -> Result<Self, WireError> {
        Ok(())
    }
}

/// One seat of a pack, as its client sees it.
pub struct Member<'a, M: Method> {
    /// The seat.
    pub seat: Seat,
    /// Index of the phase.
    pub phase: usize,
    /// What the server sent.
    pub down: Arc<M::Down>,
    /// What the client kept.
    pub state: &'a mut M::State,
    /// The seat's samples.
    pub shard: Shard,
    /// The address of everything drawn here; choose the purpose with `domain`.
    pub key: StreamKey,
    /// Tasks whose shards the client held since the server last spoke to it.
    pub missed: Vec<MissedTask>,
}

/// A task that went by without the client being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedTask {
    /// Which one.
    pub task: TaskId,
    /// What the client held of it; not empty.
    pub shard: Shard,
}

/// What a seat sends back, and what the journal says about it.
#[derive(Clone, Debug)]
pub struct Outcome<U> {
    /// The upload.
    pub up: U,
    /// Named figures (loss, steps ...) for the journal, in a fixed order.
    pub metrics: Vec<(&'static str, f64)>,
}

/// The client's half of a method.
pub trait ClientPolicy<M: Method>: Send + Sync + 'static {
    /// Local learning of a pack. Answers one outcome per member, in order; each member fails
    /// alone.
    fn train(
        &self,
        members: &mut [Member<'_, M>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<M::Up>, Failure>>;

    /// The most members that [`train`](ClientPolicy::train) learns together in a phase. The default is
    /// right for a policy that trains [`one_by_one`]: its seats are spread over workers instead.
    fn largest_pack(&self, phase: usize) -> usize {
        let _ = phase;
        1
    }

    /// The client's own model before synchronisation, for the federated-bias measures.
    fn predictor(
        &self,
        down: &M::Down,
        up: &M::Up,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let _ = (down, up, lab);
        Ok(None)
    }
}

/// Trains the members of a pack one after another; each fails alone.
pub fn one_by_one<'m, M: Method, U>(
    members: &mut [Member<'m, M>],
    learn: impl FnMut(&mut Member<'m, M>) -> Result<Outcome<U>, PolicyError>,
) -> Vec<Result<Outcome<U>, Failure>> {
    members.iter_mut().map(learn).map(|outcome| outcome.map_err(Failure::from)).collect()
}

/// Trains the members of a pack in one go; what stops `learn` as a whole fails all of them.
pub fn together<'m, M: Method, U>(
    members: &mut [Member<'m, M>],
    learn: impl FnOnce(&mut [Member<'m, M>]) -> Result<Learnt<U>, PolicyError>,
) -> Vec<Result<Outcome<U>, Failure>> {
    match learn(members) {
        Ok(outcomes) => {
            outcomes.into_iter().map(|outcome| outcome.map_err(Failure::from)).collect()
        }
        Err(error) => {
            let failure = Failure::from(error);
            members.iter().map(|_| Err(failure.clone())).collect()
        }
    }
}

/// One answer per member of a pack, in order.
pub type Learnt<U> = Vec<Result<Outcome<U>, PolicyError>>;

/// Why a seat sends nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason", content = "detail")]
pub enum Failure {
    /// Training met a value that is not finite; says where.
    NonFinite(String),
    /// The shard has no sample to train on.
    NoData,
    /// A sample could not be read, or a feature cache not be used; ends the run.
    Data(String),
    /// The policy refused or could not compute.
    Policy(String),
    /// The memory of the device was full. With a pack of one it ends the run; larger ones are tried
    /// again in halves.
    Memory(String),
    /// The job panicked.
    Panicked(String),
    /// The upload cannot be masked: a number beyond the range of secure aggregation.
    OutOfRange(String),
    /// The client vanished (a fault of the scenario).
    Crashed,
    /// The Down was damaged on its way; says how that was found.
    Corrupt(String),
    /// The Down found the client away.
    Away,
    /// The client went away before its work was done.
    Left,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NonFinite(place) => write!(f, "{place} is not finite"),
            Failure::NoData => f.write_str("the shard is empty"),
            Failure::Data(why)
            | Failure::Policy(why)
            | Failure::OutOfRange(why)
            | Failure::Memory(why)
            | Failure::Corrupt(why) => f.write_str(why),
            Failure::Panicked(why) => write!(f, "training panicked: {why}"),
            Failure::Crashed => f.write_str("the client crashed"),
            Failure::Away => f.write_str("the client was away"),
            Failure::Left => f.write_str("the client left"),
        }
    }
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Failure {
        match error {
            PolicyError::NonFinite(place) => Failure::NonFinite(place),
            PolicyError::Data(error) => Failure::Data(error.to_string()),
            PolicyError::Cache(error) => Failure::Data(error.to_string()),
            full if full.is_out_of_memory() => Failure::Memory(full.to_string()),
            other => Failure::Policy(other.to_string()),
        }
    }
}
