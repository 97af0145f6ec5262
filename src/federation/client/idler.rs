//! Seats that are not computed: those of load clients, and those of whom it is certain, as they begin, that
//! their round will be over before their Up arrives, where nothing else remembers what they learn.

use std::sync::Arc;

use super::machine::Broadcast;
use super::upload;
use crate::data::Shard;
use crate::federation::event::FrameBytes;
use crate::federation::world::World;
use crate::policy::{RoundContext, Seat, SeatKind, UpSize};
use crate::quantity::VirtualTime;
use crate::wire::{CodecPlan, FrameSize};

/// A seat that works and sends on the simulated clock only.
pub(crate) struct Idler {
    pub context: Arc<RoundContext>,
    pub seat: Seat,
    pub worked: VirtualTime,
    /// The size its Up would have.
    pub bytes: Arc<FrameBytes>,
}

/// Shared lines round to whole nanoseconds at every change.
const SLACK: VirtualTime = VirtualTime(1_000);

/// The idler that a seat is whose work takes so long and ends then.
pub(super) fn who_need_not_compute(
    world: &World,
    broadcast: &Broadcast,
    (worked, end): (VirtualTime, VirtualTime),
) -> Option<Idler> {
    let (context, seat) = (&broadcast.context, &broadcast.seat);
    let idle = |bytes| Idler {
        context: Arc::clone(context),
        seat: seat.clone(),
        worked,
        bytes: Arc::new(bytes),
    };
    if seat.kind == SeatKind::Load {
        let shard = world.seat_shard(context.phase_name, seat);
        return Some(idle(size(world, broadcast, &shard)));
    }
    let closes = broadcast.closes.filter(|_| world.method.stateless())?;
    let shard = world.seat_shard(context.phase_name, seat);
    if shard.is_empty() || world.exchange(context, seat, &shard).up.size == UpSize::FromValues {
        return None;
    }
    let bytes = size(world, broadcast, &shard);
    // Alone on the line; with others it takes longer.
    let arrival = end + upload::fate(world, context, seat, bytes.frame()).latency;
    (arrival > closes + SLACK).then(|| idle(bytes))
}

fn size(world: &World, broadcast: &Broadcast, shard: &Shard) -> FrameBytes {
    let exchange = || world.exchange(&broadcast.context, &broadcast.seat, shard);
    FrameBytes::from(&match &broadcast.masking {
        None => FrameSize::of_sketch(&exchange().up.body(), &world.coding.up),
        Some(masking) => FrameSize::of_sketch(&masking.sketch(), &CodecPlan::default()),
    })
}
