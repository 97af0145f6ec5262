//! A client: an actor that exists while it has something to do or to remember.

mod learning;
mod machine;
mod memory;
mod uncomputed;

mod training;
mod upload;

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::{Actor, Context, Handler, MessageResult};

pub(super) use machine::{Broadcast, ClientMachine, ToClient};
pub(super) use memory::KeptClient;
pub(super) use training::{TrainingJob, train_together};

use super::effect::Effect;
use super::world::World;
use crate::quantity::{Round, SeatId, VirtualTime};

/// The thin shell around [`ClientMachine`].
pub(super) struct ClientActor(pub ClientMachine);

impl Actor for ClientActor {
    type Context = Context<Self>;
}

/// Something happens to a client.
pub(super) struct AtClient {
    pub now: VirtualTime,
    pub what: ToClient,
}

impl actix::Message for AtClient {
    type Result = Vec<Effect>;
}

impl Handler<AtClient> for ClientActor {
    type Result = MessageResult<AtClient>;

    fn handle(&mut self, event: AtClient, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.0.step(event.now, event.what))
    }
}

/// Something else holds from here on.
pub(super) struct Turn(pub Arc<World>);

impl actix::Message for Turn {
    type Result = ();
}

impl Handler<Turn> for ClientActor {
    type Result = ();

    fn handle(&mut self, Turn(world): Turn, _: &mut Context<Self>) {
        self.0.turn(world);
    }
}

/// A snapshot is taken while these seats are out.
pub(super) struct Keep(pub Arc<BTreeSet<(Round, SeatId)>>);

impl actix::Message for Keep {
    type Result = Option<KeptClient>;
}

impl Handler<Keep> for ClientActor {
    type Result = MessageResult<Keep>;

    fn handle(&mut self, Keep(out): Keep, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.0.keep(&out))
    }
}
