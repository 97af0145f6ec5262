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

    /// The legs after a round closed at `end`, with the uploads that had arrived; answers when the
    /// sum is known.
    pub fn unmask(
        &mut self,
        room: &Room<'_>,
        arrivals: &[VirtualTime],
        end: VirtualTime,
    ) -> VirtualTime {
        let arrived = room.seats.iter().zip(arrivals).filter(|(_, at)| **at <= end);
        let arrived: Vec<_> = arrived.map(|(seat, _)| seat.id).collect();
        let unmasking = unmask(room, room.seats.len(), &arrived, end);
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
