//! A method around another one: what it does not do itself, the method inside does.
//!
//! Tests watch methods so, and `fedcast direct` seats one client alone. Layouts, folding, services and sizes are always
//! those inside.

use std::sync::Arc;

use super::{
    Failure, Folded, Lab, Layout, Member, Message, MessageKind, Method, MethodProfile, Outcome,
    Period, Phase, PolicyError, Predictor, RoundContext, RoundWork, Seat, Server, SketchFacts,
};
use crate::numerics::streams::StreamKey;
use crate::quantity::ClientId;
use crate::wire::{Body, WireError};

/// What may be done otherwise than inside.
pub trait MethodHooks: Send + Sync {
    /// The method inside.
    fn inner(&self) -> &dyn Method;

    /// See [`Method::server`].
    ///
    /// # Errors
    /// As there.
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        self.inner().server(lab, init)
    }

    /// See [`Method::phases`].
    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        self.inner().phases(period, rounds)
    }

    /// See [`Method::seats`].
    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        self.inner().seats(round, cohort)
    }

    /// See [`Method::train`].
    fn train(&self, members: &mut [Member], lab: &Lab) -> Vec<Result<Outcome, Failure>> {
        self.inner().train(members, lab)
    }
}

/// The method that hooks make of the one inside.
pub struct Around<H>(pub H);

impl<H: MethodHooks> Method for Around<H> {
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        self.0.server(lab, init)
    }

    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        self.0.phases(period, rounds)
    }

    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        self.0.seats(round, cohort)
    }

    fn train(&self, members: &mut [Member], lab: &Lab) -> Vec<Result<Outcome, Failure>> {
        self.0.train(members, lab)
    }

    fn profile(&self) -> MethodProfile {
        self.0.inner().profile()
    }

    fn layout(&self, message: MessageKind, facts: &SketchFacts<'_>) -> Layout {
        self.0.inner().layout(message, facts)
    }

    fn lift(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        self.0.inner().lift(facts, sent, update)
    }

    fn cost(&self, round: &RoundContext, work: &RoundWork<'_>) -> f64 {
        self.0.inner().cost(round, work)
    }

    fn state_bytes(&self, state: &Body) -> Result<u64, WireError> {
        self.0.inner().state_bytes(state)
    }

    fn background(&self, down: &Message) -> Option<Arc<Body>> {
        self.0.inner().background(down)
    }

    fn acquire(&self, background: &Body, lab: &Lab, init: StreamKey) -> Result<(), PolicyError> {
        self.0.inner().acquire(background, lab, init)
    }

    fn own_model(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        own: &Message,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        self.0.inner().own_model(facts, sent, own, lab)
    }
}

/// What a server may do otherwise than the one inside.
pub trait ServerHooks: Send {
    /// The server inside.
    fn inner(&self) -> &dyn Server;

    /// The same, to be moved.
    fn inner_mut(&mut self) -> &mut dyn Server;

    /// See [`Server::begin_period`].
    ///
    /// # Errors
    /// As there.
    fn begin_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        self.inner_mut().begin_period(period, lab)
    }

    /// See [`Server::end_round`].
    ///
    /// # Errors
    /// As there.
    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<Folded>,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        self.inner_mut().end_round(round, folded, lab)
    }

    /// See [`Server::end_period`].
    ///
    /// # Errors
    /// As there.
    fn end_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        self.inner_mut().end_period(period, lab)
    }
}

impl<H: ServerHooks> Server for Around<H> {
    fn begin_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        self.0.begin_period(period, lab)
    }

    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        lab: &Lab,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        self.0.inner_mut().broadcast(round, seats, lab)
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<Folded>,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        self.0.end_round(round, folded, lab)
    }

    fn end_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        self.0.end_period(period, lab)
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        self.0.inner().predictor(lab)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.0.inner().figures()
    }

    fn save(&self) -> Body {
        self.0.inner().save()
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.0.inner_mut().load(saved)
    }
}
