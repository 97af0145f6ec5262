//! Interface of a method to the engine: profile, layouts, pure functions over messages, and a server with a memory.
//!
//! Most methods do not implement [`Method`] themselves: they average parameters, and the base of those methods does it
//! for them.

use crate::data::TaskView;
use std::sync::Arc;

use super::{
    Aggregate, ExchangeFacts, Failure, Message, MessageSpec, MethodInspection, MethodProfile,
    ModelFacts, Participant, Phase, PolicyError, Predictor, RoundContext, RunContext, SampleCost,
    Stage, one_participant_per_client,
};
use crate::data::Shard;
use crate::learning::TrainingPlan;
use crate::numerics::streams::StreamKey;
use crate::quantity::{ClientId, TaskId};
use crate::wire::{Body, WireError};

/// A federated method: facts about it, pure functions over its messages, local training, and a [`Server`].
pub trait Method: Send + Sync {
    /// Creates the server at the start of a run. `init` addresses its initial draws.
    ///
    /// # Errors
    /// If the backbone is not what the method needs.
    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError>;

    /// Returns what is known about the method before it runs. The same at every call.
    fn profile(&self) -> MethodProfile;

    /// Lists the phases of a stage. `rounds` is the scenario's `federation.rounds`.
    fn phases(&self, stage: &Stage, rounds: u32) -> Vec<Phase> {
        let _ = stage;
        vec![Phase::train(rounds)]
    }

    /// Returns the participants of a round, from its cohort (sorted by client).
    ///
    /// There is one per client, unless clients have several or separate roles. A pure function, which a plan may call
    /// as well.
    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant> {
        one_participant_per_client(&round.stage, cohort)
    }

    /// Returns the layout of a message of an exchange. A download does not depend on what its receiver holds: the
    /// server does not know it.
    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec;

    /// Turns an upload into its [contribution](MessageKind::Contribution).
    ///
    /// Pure; runs as a device job on the server's side, before staleness, clipping and aggregation.
    ///
    /// # Errors
    /// Returns an error if the upload cannot be used: it is then refused, and the run goes on.
    fn transform_upload(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        let _ = (facts, sent);
        Ok(update)
    }

    /// Returns the sample passes of a piece of work in a round, for virtual time: a forward and a backward of one
    /// sample is 1. By default clients train for all epochs, and the server only aggregates.
    /// [`ModelFacts::passes`](super::ModelFacts::passes) converts multiplications.
    fn cost(&self, round: &RoundContext, work: &RoundWork<'_>) -> f64 {
        let _ = round;
        match *work {
            RoundWork::Participant { samples, plan, .. } => samples as f64 * f64::from(plan.epochs),
            RoundWork::Server { .. } => 0.0,
        }
    }

    /// Returns the multiplications of a sample in a phase of a task, to count floating-point operations.
    ///
    /// By default everything trains, and [those of a round's work](super::multiplications()) follow from
    /// [`cost`](Method::cost). Virtual time does not depend on them.
    fn sample_cost(&self, model: &ModelFacts, view: &TaskView, phase: usize) -> SampleCost {
        let _ = (view, phase);
        SampleCost::whole(model)
    }

    /// Trains the clients of a pack. Returns one result per member, in order; each member fails alone.
    ///
    /// A member whose training fails may leave any state behind, the engine restores the earlier one.
    fn train(&self, members: &mut [Member], ctx: &RunContext)
    -> Vec<Result<ClientResult, Failure>>;

    /// Returns the bytes that a client with this state must keep; by default those of its tensors.
    ///
    /// A fork with other settings calls it to check that the method can go on from the states of clients.
    ///
    /// # Errors
    /// Returns an error if the state is of another form.
    fn state_bytes(&self, state: &Body) -> Result<u64, WireError> {
        Ok(state.tensors().map(|(_, tensor)| tensor.values().bytes()).sum())
    }

    /// Returns the state that a process without the server must load before it can train.
    ///
    /// The state comes in addition to the download and its assets, see
    /// [`load_remote_state`](Method::load_remote_state); `None` if there is no such state.
    fn remote_state(&self, download: &Message) -> Option<Arc<Body>> {
        let _ = download;
        None
    }

    /// Loads a state that [`remote_state`](Method::remote_state) returned in another process.
    ///
    /// `init` is that of the [server](Method::server).
    ///
    /// # Errors
    /// Returns an error if the state is not from there, or the backbone is another.
    fn load_remote_state(
        &self,
        background: &Body,
        ctx: &RunContext,
        init: StreamKey,
    ) -> Result<(), PolicyError> {
        let _ = (background, ctx, init);
        Ok(())
    }

    /// Returns the method's views for measures and commands; `None`, the default, if it has none.
    fn inspection(&self) -> Option<&dyn MethodInspection> {
        None
    }
}

/// Message of an exchange that has a [`MessageSpec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// Download: server to client.
    Download,
    /// Upload: client to server.
    Upload,
    /// An upload as it is aggregated, after [`transform_upload`](Method::transform_upload).
    Contribution,
}

/// A piece of work that takes virtual time.
#[derive(Clone, Copy, Debug)]
pub enum RoundWork<'a> {
    /// Work of a participant on `samples` samples.
    Participant {
        /// Participant that does the work.
        participant: &'a Participant,
        /// Number of samples that it works on.
        samples: usize,
        /// Settings of its training.
        plan: &'a TrainingPlan,
    },
    /// Work of the server as a round of `updates` updates closes: its training, draws or solves in addition to
    /// aggregation.
    Server {
        /// Number of updates that the round aggregates.
        updates: usize,
    },
}

/// The server's half of a method.
pub trait Server: Send {
    /// Begins a stage: a task arrives.
    ///
    /// # Errors
    /// Returns the error of the method, which ends the run.
    fn begin_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        let _ = (stage, ctx);
        Ok(())
    }

    /// Returns one download per participant, in participant order.
    ///
    /// Share one `Arc` where all are equal (see [`shared`](super::shared)).
    ///
    /// # Errors
    /// As [`begin_stage`](Server::begin_stage).
    fn broadcast(
        &mut self,
        round: &RoundContext,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError>;

    /// Closes a round; `aggregate` is `None` if nothing arrived.
    ///
    /// # Errors
    /// As [`begin_stage`](Server::begin_stage).
    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError>;

    /// Ends a stage: all of its phases are over.
    ///
    /// # Errors
    /// As [`begin_stage`](Server::begin_stage).
    fn end_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        let _ = (stage, ctx);
        Ok(())
    }

    /// Returns the current global model.
    ///
    /// # Errors
    /// As [`begin_stage`](Server::begin_stage).
    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError>;

    /// Returns the named metrics of the last round for the journal, in a fixed order.
    ///
    /// Examples are solved, estimated and chosen values.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Returns everything a resumed run needs; its digest is journaled after every round.
    fn save(&self) -> Body;

    /// Loads the state that [`save`](Server::save) returned.
    ///
    /// # Errors
    /// Returns an error if `save` did not write it.
    fn load(&mut self, saved: &Body) -> Result<(), WireError>;
}

/// Participant of a pack, as its client sees it.
#[derive(Debug)]
pub struct Member {
    /// Participant of the round: its client, role and task view.
    pub participant: Participant,
    /// Index of the phase.
    pub phase: usize,
    /// Download of the participant.
    pub download: Arc<Message>,
    /// State that the client keeps, updated in place; empty before its first round.
    pub state: Body,
    /// The participant's samples.
    pub shard: Shard,
    /// Stream key of everything that the participant draws; choose the purpose with `domain`.
    pub key: StreamKey,
    /// Tasks since its last download in which the client held samples.
    pub missed: Vec<MissedTask>,
}

/// Task that passed while the client was not sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedTask {
    /// The task.
    pub task: TaskId,
    /// The client's shard of that task; not empty.
    pub shard: Shard,
}

/// Named metrics (loss, steps ...) for the journal, in a fixed order.
pub type Metrics = Vec<(&'static str, f64)>;

/// Result of a participant: its upload, and its metrics for the journal.
#[derive(Clone, Debug)]
pub struct ClientResult {
    /// The upload.
    pub upload: Message,
    /// Metrics of the training, for the journal.
    pub metrics: Metrics,
}
