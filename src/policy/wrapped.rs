//! A method around another one: what it does not do itself, the method inside does.
//!
//! Tests observe methods in this way, and `fedcast single-task` has a single client take part. Layouts, aggregation,
//! services and sizes are always those inside.

use crate::data::TaskView;
use std::sync::Arc;

use super::{
    Aggregate, ClientResult, ExchangeFacts, Failure, Member, Message, MessageKind, MessageSpec,
    Method, MethodInspection, MethodProfile, ModelFacts, Participant, Phase, PolicyError,
    Predictor, RoundContext, RoundWork, RunContext, SampleCost, Server, Stage,
};
use crate::numerics::streams::StreamKey;
use crate::quantity::ClientId;
use crate::wire::{Body, WireError};

/// Methods of [`Method`] that a wrapper may override; by default they call the inner method.
pub trait MethodWrapper: Send + Sync {
    /// Returns the inner method.
    fn inner(&self) -> &dyn Method;

    /// See [`Method::server`].
    ///
    /// # Errors
    /// As there.
    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        self.inner().server(ctx, init)
    }

    /// See [`Method::phases`].
    fn phases(&self, stage: &Stage, rounds: u32) -> Vec<Phase> {
        self.inner().phases(stage, rounds)
    }

    /// See [`Method::participants`].
    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant> {
        self.inner().participants(round, cohort)
    }

    /// See [`Method::train`].
    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        self.inner().train(members, ctx)
    }
}

/// Method that a wrapper makes of its inner method.
pub struct Wrapped<H>(pub H);

impl<H: MethodWrapper> Method for Wrapped<H> {
    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        self.0.server(ctx, init)
    }

    fn phases(&self, stage: &Stage, rounds: u32) -> Vec<Phase> {
        self.0.phases(stage, rounds)
    }

    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant> {
        self.0.participants(round, cohort)
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        self.0.train(members, ctx)
    }

    fn profile(&self) -> MethodProfile {
        self.0.inner().profile()
    }

    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        self.0.inner().message_spec(message, facts)
    }

    fn transform_upload(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        self.0.inner().transform_upload(facts, sent, update)
    }

    fn cost(&self, round: &RoundContext, work: &RoundWork<'_>) -> f64 {
        self.0.inner().cost(round, work)
    }

    fn sample_cost(&self, model: &ModelFacts, view: &TaskView, phase: usize) -> SampleCost {
        self.0.inner().sample_cost(model, view, phase)
    }

    fn state_bytes(&self, state: &Body) -> Result<u64, WireError> {
        self.0.inner().state_bytes(state)
    }

    fn remote_state(&self, download: &Message) -> Option<Arc<Body>> {
        self.0.inner().remote_state(download)
    }

    fn load_remote_state(
        &self,
        background: &Body,
        ctx: &RunContext,
        init: StreamKey,
    ) -> Result<(), PolicyError> {
        self.0.inner().load_remote_state(background, ctx, init)
    }

    fn inspection(&self) -> Option<&dyn MethodInspection> {
        self.0.inner().inspection()
    }
}

/// Methods of [`Server`] that a wrapper may override; by default they call the inner server.
pub trait ServerWrapper: Send {
    /// Returns the inner server.
    fn inner(&self) -> &dyn Server;

    /// Returns the inner server, mutable.
    fn inner_mut(&mut self) -> &mut dyn Server;

    /// See [`Server::begin_stage`].
    ///
    /// # Errors
    /// As there.
    fn begin_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        self.inner_mut().begin_stage(stage, ctx)
    }

    /// See [`Server::end_round`].
    ///
    /// # Errors
    /// As there.
    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        self.inner_mut().end_round(round, aggregate, ctx)
    }

    /// See [`Server::end_stage`].
    ///
    /// # Errors
    /// As there.
    fn end_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        self.inner_mut().end_stage(stage, ctx)
    }
}

impl<H: ServerWrapper> Server for Wrapped<H> {
    fn begin_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        self.0.begin_stage(stage, ctx)
    }

    fn broadcast(
        &mut self,
        round: &RoundContext,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        self.0.inner_mut().broadcast(round, participants, ctx)
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        self.0.end_round(round, aggregate, ctx)
    }

    fn end_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        self.0.end_stage(stage, ctx)
    }

    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        self.0.inner().predictor(ctx)
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.0.inner().metrics()
    }

    fn save(&self) -> Body {
        self.0.inner().save()
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.0.inner_mut().load(saved)
    }
}
