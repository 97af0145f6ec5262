//! The server: an actor that opens rounds, accounts for every participant, and closes them.

mod known_clients;
mod machine;
mod messages;
mod policy_desk;
mod round;
mod round_book;
mod schedule;

use actix::{Actor, Context, Handler, MessageResult};

pub(super) use machine::ServerMachine;
pub(super) use messages::{Arrival, ServerSnapshot, ToServer};

use super::effect::Effect;
use crate::quantity::VirtualTime;

/// Actor of the server: a mailbox around [`ServerMachine`].
pub(super) struct ServerActor(pub ServerMachine);

impl Actor for ServerActor {
    type Context = Context<Self>;
}

/// Message to the server at a virtual time.
pub(super) struct AtServer {
    pub now: VirtualTime,
    pub what: ToServer,
}

impl actix::Message for AtServer {
    type Result = Vec<Effect>;
}

impl Handler<AtServer> for ServerActor {
    type Result = MessageResult<AtServer>;

    fn handle(&mut self, event: AtServer, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.0.step(event.now, event.what))
    }
}

/// Query for the waiting actors and what each waits for, sent when no event is left.
pub(super) struct WhoWaits;

impl actix::Message for WhoWaits {
    type Result = Vec<String>;
}

impl Handler<WhoWaits> for ServerActor {
    type Result = MessageResult<WhoWaits>;

    fn handle(&mut self, _: WhoWaits, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.0.waiting())
    }
}
