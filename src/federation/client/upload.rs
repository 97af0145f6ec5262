//! Upload in transit: its fate, and the message that notifies the server.

use std::sync::Arc;

use super::arrival::fate;
use super::messages::Broadcast;
use crate::federation::compute::{ParticipantRef, Supplier};
use crate::federation::effect::Effect;
use crate::federation::envelope::ActorMessage;
use crate::federation::event::{Direction, Event, FrameBytes, FrameOutcome};
use crate::federation::network::{PendingFrame, Transmission};
use crate::federation::queue::EventClass;
use crate::federation::server::ToServer;
use crate::federation::simulation_context::SimulationContext;
use crate::policy::{Participant, RoundContext};
use crate::quantity::VirtualTime;

/// Returns true if a participant's upload arrives a second time.
pub(super) fn arrives_twice(
    simulation: &SimulationContext,
    context: &RoundContext,
    participant: &Participant,
) -> bool {
    let victim = simulation.victim(context.round, participant);
    simulation.charged
        && simulation.rules.faults.duplicates(simulation.rules.seed, victim, Direction::Up)
}

/// Returns the error that a client finds in a download that was damaged in transit.
pub(super) fn damaged_down(
    simulation: &SimulationContext,
    supplier: &Supplier,
    broadcast: &Broadcast,
) -> Option<String> {
    let Broadcast { context, participant, download, .. } = broadcast;
    let victim = simulation.victim(context.round, participant);
    let draws = simulation.rules.faults.corrupts(simulation.rules.seed, victim, Direction::Down)?;
    supplier.download_damage(&ParticipantRef { simulation, context, participant }, download, draws)
}

/// Sends a participant's upload.
///
/// `arrived` builds the server's message from the charge, if frames are charged.
pub(super) fn send(
    simulation: &SimulationContext,
    now: VirtualTime,
    (context, participant): (&RoundContext, &Participant),
    bytes: &Arc<FrameBytes>,
    arrived: impl FnOnce(Option<Event>) -> ToServer,
) -> Effect {
    if !simulation.charged {
        return Effect::deliver_to_server(now, EventClass::Delivery, arrived(None));
    }
    let fate = fate(simulation, context, participant, bytes.frame());
    let charge = Event::FrameCharged {
        round: context.round,
        task: context.stage.task,
        phase: context.phase as u32,
        participant: participant.id,
        client: participant.client,
        direction: Direction::Up,
        outcome: if fate.arrives { FrameOutcome::Delivered } else { FrameOutcome::Lost },
        bytes: Arc::clone(bytes),
        sent: fate.sent,
        latency: fate.latency.0,
        kind: participant.kind,
        copy: false,
        asset: None,
    };
    let (round, id) = (context.round, participant.id);
    let message = match fate.arrives {
        true => arrived(Some(charge)),
        false => ToServer::Lost { round, participant: id, charge: Some(charge) },
    };
    let frame = PendingFrame { fate, message: ActorMessage::Server(message) };
    Effect::Send(Transmission { direction: Direction::Up, frames: [frame].into() })
}
