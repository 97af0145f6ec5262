//! Seats that are not computed: those of load clients, and those of whom it is certain, as they begin, that
//! their round will be over before their Up arrives, where nothing else remembers what they learn.

use std::sync::Arc;

use super::messages::{Broadcast, Uncomputed};
use super::upload;
use crate::federation::event::FrameBytes;
use crate::federation::exchange::Exchange;
use crate::federation::simulation_context::SimulationContext;
use crate::policy::{ParticipantKind, UploadSize};
use crate::quantity::VirtualTime;

/// Shared lines round to whole nanoseconds at every change.
const SLACK: VirtualTime = VirtualTime(1_000);

/// A seat whose work takes so long and ends then, where it need not be computed.
pub(super) fn who_need_not_compute(
    world: &SimulationContext,
    broadcast: &Broadcast,
    (worked, end): (VirtualTime, VirtualTime),
) -> Option<Uncomputed> {
    let (context, seat) = (&broadcast.context, &broadcast.seat);
    let idle =
        |bytes| Uncomputed { context: Arc::clone(context), seat: seat.clone(), worked, bytes };
    if seat.kind == ParticipantKind::Load {
        return Some(idle(size(broadcast, world, &world.exchange(context, seat))));
    }
    let closes = broadcast.closes.filter(|_| world.stateless)?;
    let exchange = world.exchange(context, seat);
    if exchange.samples() == 0 || exchange.up.layout.size == UploadSize::FromValues {
        return None;
    }
    let bytes = size(broadcast, world, &exchange);
    // Alone on the line; with others it takes longer.
    let arrival = end + upload::fate(world, context, seat, bytes.frame()).latency;
    (arrival > closes + SLACK).then(|| idle(bytes))
}

fn size(broadcast: &Broadcast, world: &SimulationContext, exchange: &Exchange) -> Arc<FrameBytes> {
    match &broadcast.masking {
        None => Arc::clone(exchange.up.bytes(&world.coding.up)),
        Some(masking) => masking.size(),
    }
}
