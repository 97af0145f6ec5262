//! Participants that are not computed: load clients, and participants that are certain to be late.
//!
//! The latter are skipped only if no state would remember their training.

use std::sync::Arc;

use super::arrival;
use super::messages::{Broadcast, Uncomputed};
use crate::federation::event::FrameBytes;
use crate::federation::exchange::Exchange;
use crate::federation::simulation_context::SimulationContext;
use crate::policy::{ParticipantKind, UploadSize};
use crate::quantity::VirtualTime;

/// Tolerance for shared lines, which round to whole nanoseconds at every change of rates.
const SLACK: VirtualTime = VirtualTime(1_000);

/// Returns a participant with this work if it need not be computed, else `None`.
pub(super) fn who_need_not_compute(
    simulation: &SimulationContext,
    broadcast: &Broadcast,
    (worked, end): (VirtualTime, VirtualTime),
) -> Option<Uncomputed> {
    let (context, participant) = (&broadcast.context, &broadcast.participant);
    let idle = |bytes| Uncomputed {
        context: Arc::clone(context),
        participant: participant.clone(),
        worked,
        bytes,
    };
    if participant.kind == ParticipantKind::LoadClient {
        return Some(idle(size(broadcast, simulation, &simulation.exchange(context, participant))));
    }
    let closes = broadcast.closes.filter(|_| simulation.stateless)?;
    let exchange = simulation.exchange(context, participant);
    if exchange.samples() == 0 || exchange.upload.layout.size == UploadSize::FromValues {
        return None;
    }
    let bytes = size(broadcast, simulation, &exchange);
    // A lower bound: with other frames on the server's line it takes longer.
    let arrival = end + arrival::fate(simulation, context, participant, bytes.frame()).latency;
    (arrival > closes + SLACK).then(|| idle(bytes))
}

fn size(
    broadcast: &Broadcast,
    simulation: &SimulationContext,
    exchange: &Exchange,
) -> Arc<FrameBytes> {
    match &broadcast.masking {
        None => Arc::clone(exchange.upload.bytes(&simulation.coding.up)),
        Some(masking) => masking.size(),
    }
}
