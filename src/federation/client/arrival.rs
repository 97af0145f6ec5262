//! Arrival of an upload at the server, which is known as soon as its size is.

use crate::federation::event::Direction;
use crate::federation::faults::CrashTime;
use crate::federation::links::{Fate, Transfer};
use crate::federation::simulation_context::SimulationContext;
use crate::policy::{Participant, RoundContext};

/// Returns the outcome of an upload of this size on its client's link.
///
/// It arrives at once if the run charges no frames.
pub(super) fn fate(
    simulation: &SimulationContext,
    context: &RoundContext,
    participant: &Participant,
    bytes: u64,
) -> Fate {
    let transfer = Transfer {
        client: participant.client,
        round: context.round,
        unit: participant.dummy_client_in_keys(),
        frame: 0,
        direction: Direction::Up,
    };
    match simulation.charged {
        true => simulation.links.send(transfer, bytes),
        false => Fate::instant(bytes),
    }
}

/// Returns true if the client of a participant crashes after training and before sending.
pub(super) fn crashes_after(
    simulation: &SimulationContext,
    context: &RoundContext,
    participant: &Participant,
) -> bool {
    let victim = simulation.victim(context.round, participant);
    let crash = simulation.rules.faults.crash(simulation.rules.seed, victim);
    crash.is_some_and(|(when, _)| when == CrashTime::After)
}

/// Returns true if a participant that has trained sends its upload, of this size, and it arrives.
pub(super) fn arrives(
    simulation: &SimulationContext,
    context: &RoundContext,
    participant: &Participant,
    bytes: u64,
) -> bool {
    !crashes_after(simulation, context, participant)
        && fate(simulation, context, participant, bytes).arrives
}
