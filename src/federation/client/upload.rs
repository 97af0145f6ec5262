//! An Up on its way: its fate, and the message that tells the server of it.

use std::sync::Arc;

use super::messages::Broadcast;
use crate::federation::compute::{ParticipantRef, Supplier};
use crate::federation::effect::Effect;
use crate::federation::envelope::Message;
use crate::federation::event::{Direction, Event, FrameBytes, FrameOutcome};
use crate::federation::links::{Fate, Transfer};
use crate::federation::network::{PendingFrame, Transmission};
use crate::federation::queue::EventClass;
use crate::federation::server::ToServer;
use crate::federation::simulation_context::SimulationContext;
use crate::policy::{Participant, RoundContext};
use crate::quantity::VirtualTime;

/// What becomes of a seat's Up of this size.
pub(super) fn fate(
    world: &SimulationContext,
    context: &RoundContext,
    seat: &Participant,
    bytes: u64,
) -> Fate {
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
pub(super) fn arrives_twice(
    world: &SimulationContext,
    context: &RoundContext,
    seat: &Participant,
) -> bool {
    let victim = world.victim(context.round, seat);
    world.charged && world.rules.faults.duplicates(world.rules.seed, victim, Direction::Up)
}

/// What a client finds wrong with a Down that was damaged on its way.
pub(super) fn damaged_down(
    world: &SimulationContext,
    supplier: &Supplier,
    broadcast: &Broadcast,
) -> Option<String> {
    let Broadcast { context, seat, down, .. } = broadcast;
    let victim = world.victim(context.round, seat);
    let draws = world.rules.faults.corrupts(world.rules.seed, victim, Direction::Down)?;
    supplier.download_damage(&ParticipantRef { world, context, seat }, down, draws)
}

/// Sends a seat's Up; `arrived` makes the server's message of it, with its charge where frames are charged.
pub(super) fn send(
    world: &SimulationContext,
    now: VirtualTime,
    (context, seat): (&RoundContext, &Participant),
    bytes: &Arc<FrameBytes>,
    arrived: impl FnOnce(Option<Event>) -> ToServer,
) -> Effect {
    if !world.charged {
        return Effect::deliver_to_server(now, EventClass::Delivery, arrived(None));
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
    let message = match fate.arrives {
        true => arrived(Some(charge)),
        false => ToServer::Lost { round, seat: id, charge: Some(charge) },
    };
    let parcel = PendingFrame { fate, message: Message::Server(message) };
    Effect::Send(Transmission { direction: Direction::Up, parcels: [parcel].into() })
}
