//! The actor of a client: a mailbox around [`ClientMachine`].

use actix::{Actor, Context, Handler, Message, MessageResult};

use super::machine::ClientMachine;
use super::memory::{ClientMemory, ClientSnapshot};
use super::messages::{
    AssetArrived, Broadcast, Keep, NewTerms, Retire, TrainingFinished, Uncomputed, WorkStopped,
};
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::guard::guard;
use crate::quantity::VirtualTime;

/// Actor of one client.
pub(super) struct ClientActor(pub ClientMachine);

impl Actor for ClientActor {
    type Context = Context<Self>;
}

/// Message that reaches a client at a virtual time.
pub(super) struct At<M>(pub VirtualTime, pub M);

/// Effects of a message, and the state it left the client in.
pub(super) struct Reaction {
    pub effects: Vec<Effect>,
    /// True if the client holds nothing but its memory.
    pub is_idle: bool,
}

/// Reaction of a client, or the error of one that panicked.
type Answer = Result<Reaction, FederationError>;

impl<M> Message for At<M> {
    type Result = Answer;
}

impl ClientActor {
    fn react(&mut self, step: impl FnOnce(&mut ClientMachine, &mut Vec<Effect>)) -> Answer {
        let mut effects = Vec::new();
        let stepped = guard(|| step(&mut self.0, &mut effects));
        stepped.map_err(|_| FederationError::ActorGone(self.0.id().to_string()))?;
        Ok(Reaction { effects, is_idle: self.0.is_idle() })
    }
}

impl Handler<At<AssetArrived>> for ClientActor {
    type Result = Answer;

    fn handle(&mut self, At(_, asset): At<AssetArrived>, _: &mut Context<Self>) -> Answer {
        self.react(|client, effects| client.take_asset(asset, effects))
    }
}

impl Handler<At<Broadcast>> for ClientActor {
    type Result = Answer;

    fn handle(&mut self, At(now, broadcast): At<Broadcast>, _: &mut Context<Self>) -> Answer {
        self.react(|client, effects| client.receive(now, broadcast, effects))
    }
}

impl Handler<At<TrainingFinished>> for ClientActor {
    type Result = Answer;

    fn handle(&mut self, At(now, trained): At<TrainingFinished>, _: &mut Context<Self>) -> Answer {
        self.react(|client, effects| client.finish(now, trained, effects))
    }
}

impl Handler<At<Uncomputed>> for ClientActor {
    type Result = Answer;

    fn handle(&mut self, At(now, uncomputed): At<Uncomputed>, _: &mut Context<Self>) -> Answer {
        self.react(|client, effects| client.send_blank(now, uncomputed, effects))
    }
}

impl Handler<At<WorkStopped>> for ClientActor {
    type Result = Answer;

    fn handle(&mut self, At(now, stopped): At<WorkStopped>, _: &mut Context<Self>) -> Answer {
        self.react(|client, effects| client.stop(now, stopped, effects))
    }
}

impl Message for NewTerms {
    type Result = ();
}

impl Handler<NewTerms> for ClientActor {
    type Result = ();

    fn handle(&mut self, NewTerms(simulation): NewTerms, _: &mut Context<Self>) {
        self.0.turn(simulation);
    }
}

impl Message for Keep {
    type Result = Option<ClientSnapshot>;
}

impl Handler<Keep> for ClientActor {
    type Result = MessageResult<Keep>;

    fn handle(&mut self, Keep(out): Keep, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.0.keep(&out))
    }
}

/// Client that an actor becomes after its own has retired.
pub(super) struct TakeOver(pub Box<ClientMachine>);

impl Message for TakeOver {
    type Result = ();
}

impl Handler<TakeOver> for ClientActor {
    type Result = ();

    fn handle(&mut self, TakeOver(client): TakeOver, _: &mut Context<Self>) {
        self.0 = *client;
    }
}

impl Message for Retire {
    type Result = Option<ClientMemory>;
}

impl Handler<Retire> for ClientActor {
    type Result = MessageResult<Retire>;

    fn handle(&mut self, _: Retire, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.0.retire())
    }
}
