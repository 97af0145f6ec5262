//! An Up on its way: what becomes of it, and who is message_of when.

use std::sync::Arc;

use super::messages::Broadcast;
use crate::federation::compute::{Compute, ParticipantRef};
use crate::federation::effect::{Effect, Message};
use crate::federation::event::{Direction, Event, FrameBytes, FrameOutcome};
use crate::federation::links::{Fate, Transfer};
use crate::federation::network::{Journey, Parcel};
use crate::federation::queue::{ActorId, Class};
use crate::federation::server::ToServer;
use crate::federation::world::World;
use crate::policy::{RoundContext, Seat};
use crate::quantity::VirtualTime;

/// What becomes of a seat's Up of this size.
pub(super) fn fate(world: &World, context: &RoundContext, seat: &Seat, bytes: u64) -> Fate {
    let transfer = Transfer {
        client: seat.client,
        round: context.round,
        unit: seat.unit_in_keys(),
        frame: 0,
        direction: Direction::Up,
    };
    match world.charged {
        true => world.links.send(transfer, bytes),
        false => Fate::instant(bytes),
    }
}

/// Whether a seat's Up arrives a second time.
pub(super) fn arrives_twice(world: &World, context: &RoundContext, seat: &Seat) -> bool {
    let victim = world.victim(context.round, seat);
    world.charged && world.rules.faults.duplicates(world.rules.seed, victim, Direction::Up)
}

/// What a client finds wrong with a Down that was damaged on its way.
pub(super) fn damaged_down(
    world: &World,
    compute: &dyn Compute,
    broadcast: &Broadcast,
) -> Option<String> {
    let Broadcast { context, seat, down, .. } = broadcast;
    let victim = world.victim(context.round, seat);
    let draws = world.rules.faults.corrupts(world.rules.seed, victim, Direction::Down)?;
    compute.download_damage(&ParticipantRef { world, context, seat }, down, draws)
}

/// Sends a seat's Up; `arrived` makes what the server is message_of when it arrives, with its charge where
/// frames are charged.
pub(super) fn send(
    world: &World,
    now: VirtualTime,
    (context, seat): (&RoundContext, &Seat),
    bytes: &Arc<FrameBytes>,
    arrived: impl FnOnce(Option<Event>) -> ToServer + Send + 'static,
) -> Effect {
    if !world.charged {
        return tell_server(now, arrived(None));
    }
    let fate = fate(world, context, seat, bytes.frame());
    let charge = Event::FrameCharged {
        round: context.round,
        task: context.period.task,
        phase: context.phase as u32,
        seat: seat.id,
        client: seat.client,
        direction: Direction::Up,
        outcome: if fate.arrives { FrameOutcome::Delivered } else { FrameOutcome::Lost },
        bytes: Arc::clone(bytes),
        sent: fate.sent,
        latency: fate.latency.0,
        kind: seat.kind,
        copy: false,
        asset: None,
    };
    let (round, id) = (context.round, seat.id);
    let message_of = move |charge| match fate.arrives {
        true => arrived(charge),
        false => ToServer::Lost { round, seat: id, charge },
    };
    let message = Box::new(|charge| Message::Server(message_of(Some(charge))));
    let parcel = Parcel { fate, charge, to: ActorId::Server, message };
    Effect::Send(Journey { direction: Direction::Up, parcels: [parcel].into() })
}

pub(super) fn tell_server(at: VirtualTime, message: ToServer) -> Effect {
    let message = Message::Server(message);
    Effect::Tell { at, class: Class::Delivery, to: ActorId::Server, message }
}
