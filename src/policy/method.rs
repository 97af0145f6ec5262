//! What the engine sees of a method: layouts, pure functions over messages, and a server with a memory.
//!
//! Most methods do not implement [`Method`] themselves: they average parameters, and the base of those methods does it
//! for them.

use std::sync::Arc;

use super::{
    Failure, Folded, Lab, Layout, Message, ModelFacts, Period, Phase, PolicyError, Predictor, Role,
    RoundContext, Seat, SketchFacts, Veto, one_seat_each,
};
use crate::data::{Shard, TaskView};
use crate::learning::TrainingPlan;
use crate::numerics::streams::StreamKey;
use crate::quantity::{ClientId, TaskId};
use crate::wire::{Body, BodySketch, WireError};

/// A federated method.
pub trait Method: Send + Sync {
    /// The server at the start of a run. `init` addresses its initial draws.
    ///
    /// # Errors
    /// When the backbone is not what the method needs.
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn Server>, PolicyError>;

    /// The phases of a period. `rounds` is the scenario's `federation.rounds`.
    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        let _ = period;
        vec![Phase::train(rounds)]
    }

    /// The seats of a round, from its cohort (sorted by client): one per client, unless clients have several or roles
    /// of their own. A pure function, which a plan may call as well.
    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        one_seat_each(&round.period, cohort)
    }

    /// What seats may do, with a word for each; one without a word where all do the same.
    fn roles(&self) -> Vec<(Role, &'static str)> {
        vec![(Role::default(), "")]
    }

    /// What a Down holds. It does not depend on what its receiver holds: the server does not know it.
    fn down(&self, facts: &SketchFacts<'_>) -> Layout;

    /// What an Up holds, and what becomes of it unless it is [lifted](Method::lift).
    fn up(&self, facts: &SketchFacts<'_>) -> Layout;

    /// What [`lift`](Method::lift) makes of an Up.
    fn folded(&self, facts: &SketchFacts<'_>) -> Layout {
        self.up(facts)
    }

    /// What an upload contributes, where that is not what travels. Pure; runs as a device job on the server's side,
    /// before staleness, clipping and folding.
    ///
    /// # Errors
    /// An upload that cannot be used: it is refused, and the run goes on.
    fn lift(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        let _ = (facts, sent);
        Ok(update)
    }

    /// Services that the layouts would allow and the method cannot bear, each with the reason.
    fn vetoes(&self) -> Vec<Veto> {
        Vec::new()
    }

    /// Shape of what a client must hold to compute this method's features
    /// ([`Predictor::feature_state`]), for methods that may be the first of two.
    fn feature_sketch(&self) -> BodySketch {
        BodySketch::default()
    }

    /// Whether its messages cross a network; a method of a single site pays for none.
    fn charged(&self) -> bool {
        true
    }

    /// Sample passes a seat computes in a round, for virtual time: a forward and a backward of one sample is 1.
    fn work(&self, view: &TaskView, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        let _ = (view, phase);
        samples as f64 * f64::from(plan.epochs)
    }

    /// The same of a seat in a round, with what depends on what the seat does, on the round or on the model.
    /// [`ModelFacts::passes`](super::ModelFacts::passes) converts multiplications.
    fn seat_work(
        &self,
        seat: &Seat,
        round: &RoundContext,
        samples: usize,
        plan: &TrainingPlan,
    ) -> f64 {
        self.work(&seat.view, round.phase, samples, plan)
    }

    /// Sample passes that the server computes by itself as a round of so many updates closes, for virtual time: what it
    /// learns, draws or solves beyond folding them. [`ModelFacts::passes`](super::ModelFacts::passes) converts
    /// multiplications.
    fn server_work(&self, round: &RoundContext, updates: usize) -> f64 {
        let _ = (round, updates);
        0.0
    }

    /// Whether clients keep nothing between rounds.
    fn stateless(&self) -> bool {
        true
    }

    /// Bytes that a client with this state must keep; by default those of its tensors.
    fn kept_bytes(&self, state: &Body) -> u64 {
        state.tensors().map(|(_, tensor)| tensor.values().bytes()).sum()
    }

    /// Whether this method, with its settings, can go on from a state that a client has kept: a run that is forked with
    /// other settings asks before anything is written.
    ///
    /// # Errors
    /// Where the state is of another form.
    fn check_state(&self, state: &Body) -> Result<(), WireError> {
        let _ = state;
        Ok(())
    }

    /// What server and clients hold between rounds of a model of these dimensions, where the method says so beforehand:
    /// a plan shows it, because with many clients it may be more than a machine has.
    fn holdings(&self, model: &ModelFacts) -> Option<Holdings> {
        let _ = model;
        None
    }

    /// Local learning of a pack: one outcome per member, in order; each member fails alone. A member whose training fails
    /// may leave any state behind, the engine puts the earlier one back.
    fn train(&self, members: &mut [Member], lab: &Lab) -> Vec<Result<Outcome, Failure>>;

    /// What a process that has not the server must [acquire](Method::acquire) before it can learn from this Down, beside
    /// the Down and its assets.
    fn background(&self, down: &Message) -> Option<Arc<Body>> {
        let _ = down;
        None
    }

    /// Takes in what [`background`](Method::background) gave elsewhere. `init` is that of the [server](Method::server).
    ///
    /// # Errors
    /// Where it is not from there, or the backbone is another.
    fn acquire(&self, background: &Body, lab: &Lab, init: StreamKey) -> Result<(), PolicyError> {
        let _ = (background, lab, init);
        Ok(())
    }

    /// The most members that [`train`](Method::train) learns together in a phase of the period with this view. One is
    /// right where they are trained one after another: seats are spread over workers instead.
    fn largest_pack(&self, view: &Arc<TaskView>, phase: usize) -> usize {
        let _ = (view, phase);
        1
    }

    /// The client's own model before synchronisation, for the federated-bias measures.
    ///
    /// # Errors
    /// When the messages do not fit each other.
    fn own_model(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        own: &Message,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let _ = (facts, sent, own, lab);
        Ok(None)
    }
}

/// The server's half of a method.
pub trait Server: Send {
    /// A task arrives.
    ///
    /// # Errors
    /// What the method reports; it ends the run.
    fn begin_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        let _ = (period, lab);
        Ok(())
    }

    /// One Down per seat, in seat order; share one `Arc` where all are equal (see [`shared`](super::shared)).
    ///
    /// # Errors
    /// As [`begin_period`](Server::begin_period).
    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        lab: &Lab,
    ) -> Result<Vec<Arc<Message>>, PolicyError>;

    /// The round closes; `folded` is `None` where nothing arrived.
    ///
    /// # Errors
    /// As [`begin_period`](Server::begin_period).
    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<Folded>,
        lab: &Lab,
    ) -> Result<(), PolicyError>;

    /// All phases of the period are over.
    ///
    /// # Errors
    /// As [`begin_period`](Server::begin_period).
    fn end_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        let _ = (period, lab);
        Ok(())
    }

    /// The global model as it stands.
    ///
    /// # Errors
    /// As [`begin_period`](Server::begin_period).
    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError>;

    /// Named figures of the last round for the journal (what was solved, estimated, chosen), in a fixed order.
    fn figures(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Everything a resumed run needs; its digest is journalled after every round.
    fn save(&self) -> Body;

    /// The inverse of [`save`](Server::save).
    ///
    /// # Errors
    /// Where it was not written by it.
    fn load(&mut self, saved: &Body) -> Result<(), WireError>;
}

/// One seat of a pack, as its client sees it.
#[derive(Debug)]
pub struct Member {
    pub seat: Seat,
    /// Index of the phase.
    pub phase: usize,
    /// What the server sent.
    pub down: Arc<Message>,
    /// What the client kept, updated in place; empty before its first round.
    pub state: Body,
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

/// Bytes that a method holds between rounds, at most, before codecs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Holdings {
    /// By the server, parameters included.
    pub server: u64,
    /// By every client that has taken part.
    pub client: u64,
}

/// Named figures (loss, steps ...) for the journal, in a fixed order.
pub type Figures = Vec<(&'static str, f64)>;

/// What a seat sends back, and what the journal says about it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The upload.
    pub up: Message,
    /// What the journal says of the training.
    pub metrics: Figures,
}
