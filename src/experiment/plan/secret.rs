//! What secure aggregation adds to a round in which nobody fails.

use super::frame::{FrameRange, PlannedFrame};
use crate::federation::Direction;
use crate::federation::privacy::{ProtocolFrame, Room, introduce, unmask};
use crate::quantity::VirtualTime;

/// Frames of the protocol in both directions.
#[derive(Default)]
pub(super) struct Protocol {
    pub down: FrameRange,
    pub up: FrameRange,
}

impl Protocol {
    /// The legs before the Downs; answers when those may leave.
    pub fn introduce(&mut self, room: &Room<'_>) -> VirtualTime {
        let introduction = introduce(room, VirtualTime::ZERO);
        self.add(&introduction.frames);
        introduction.settled
    }

    /// The legs after the last upload; answers when the sum is known.
    pub fn unmask(&mut self, room: &Room<'_>, now: VirtualTime) -> VirtualTime {
        let everybody: Vec<_> = room.seats.iter().map(|seat| seat.id).collect();
        let unmasking = unmask(room, everybody.len(), &everybody, now);
        self.add(&unmasking.frames);
        unmasking.settled
    }

    fn add(&mut self, frames: &[ProtocolFrame]) {
        for frame in frames {
            let range = match frame.leg.direction() {
                Direction::Down => &mut self.down,
                Direction::Up => &mut self.up,
            };
            range.add(PlannedFrame::from(&*frame.bytes));
        }
    }
}
