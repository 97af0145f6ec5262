//! The traits a method implements: [`Method`], its [`ServerPolicy`] and its [`ClientPolicy`].

use std::sync::Arc;

use super::{Additive, Averaged, Field, Part, UNMARKED};
use crate::data::Shard;
use crate::learning::TrainingPlan;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Asset, AssetSketch, ClientState, ExchangeSketch, Failure, Lab, MissedTask, Period, Phase,
    PolicyError, Predictor, RoundContext, Seat, SketchFacts, UpMeta, one_seat_each,
};
use crate::quantity::ClientId;
use crate::wire::{Body, BodySketch, WireError};

/// A typed message of a method.
pub trait OldMessage: Send + Sync + Sized + 'static {
    /// The frame body.
    fn pack(&self) -> Body;
    /// The inverse.
    fn unpack(body: &Body) -> Result<Self, WireError>;
    /// The same with the assets the message named.
    fn unpack_with(body: &Body, assets: &[Arc<Asset>]) -> Result<Self, WireError> {
        let _ = assets;
        Self::unpack(body)
    }
    /// Assets this message names.
    fn assets(&self) -> Vec<Arc<Asset>> {
        Vec::new()
    }
}

/// A federated method: configuration plus the types and policies that make it up.
pub trait Method: Send + Sync + Sized + 'static {
    /// Server to client.
    type Down: OldMessage;
    /// Client to server.
    type Up: OldMessage;
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
        Err(UNMARKED)
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
    /// .
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
