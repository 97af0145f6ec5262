//! Frames in transit between the server and clients.
//!
//! They use separate links per client and, where the scenario limits it, the server's one line.
//!
//! Without such a limit a frame's delivery is known when it is sent. With it, delivery depends on the other frames in
//! transit: the event loop asks [`FrameNetwork::next`] for the next change and lets [`FrameNetwork::advance`] deliver
//! what arrived. Bytes go through the line first and then take the client's half round trip.

use std::collections::{BTreeMap, VecDeque};

use super::bandwidth::{Pipe, TransferId};
use super::envelope::{ActorMessage, Envelope};
use super::event::{Direction, Event};
use super::links::Fate;
use super::rules::LinkRules;
use crate::quantity::VirtualTime;

/// Frame in transit, and the message to its receiver.
pub(super) struct PendingFrame {
    pub fate: Fate,
    /// Message with the frame's entry; on a shared line the latency is filled in on arrival.
    pub message: ActorMessage,
}

/// Frames of one client and direction, each sent when the one before it has arrived.
pub(super) struct Transmission {
    pub direction: Direction,
    pub frames: VecDeque<PendingFrame>,
}

/// All frames in transit.
#[derive(Default)]
pub(super) struct FrameNetwork {
    down: SharedLink,
    up: SharedLink,
    /// Transmissions whose next frame starts at a known time, by time and order of sending.
    starting: BTreeMap<(VirtualTime, u64), Transmission>,
    sequence: u64,
}

/// Server's line in one direction; without a pipe it limits nothing.
#[derive(Default)]
struct SharedLink {
    pipe: Option<Pipe>,
    under_way: BTreeMap<TransferId, (VirtualTime, Transmission)>,
}

impl FrameNetwork {
    pub fn new(rules: &LinkRules) -> FrameNetwork {
        let line = |rate: f64| SharedLink {
            pipe: rate.is_finite().then(|| Pipe::new(rate as u64)),
            ..SharedLink::default()
        };
        FrameNetwork {
            down: line(rules.server_down),
            up: line(rules.server_up),
            ..FrameNetwork::default()
        }
    }

    /// Sends frames. What arrives at a known time is handed to `deliver` at once.
    pub fn send(
        &mut self,
        now: VirtualTime,
        journey: Transmission,
        deliver: &mut impl FnMut(Envelope),
    ) {
        if self.line(journey.direction).pipe.is_some() {
            self.starting.insert((now, self.sequence), journey);
            self.sequence += 1;
            return;
        }
        let mut at = now;
        for PendingFrame { fate, message } in journey.frames {
            at = at + fate.latency;
            deliver(Envelope::delivery(at, message));
        }
    }

    /// Returns the time of the next change of a shared line.
    pub fn next(&mut self) -> Option<VirtualTime> {
        let start = self.starting.first_key_value().map(|((at, _), _)| *at);
        let ends = [&mut self.down, &mut self.up].map(SharedLink::next_end);
        start.into_iter().chain(ends.into_iter().flatten().map(|(at, _)| at)).min()
    }

    /// Makes the next change happen.
    pub fn advance(&mut self, deliver: &mut impl FnMut(Envelope)) {
        let Some(now) = self.next() else { return };
        // Ends come first, because they leave bandwidth to what starts.
        for direction in [Direction::Down, Direction::Up] {
            let line = self.line(direction);
            let Some((at, id)) = line.next_end().filter(|(at, _)| *at == now) else { continue };
            if let (Some(pipe), Some((sent, mut journey))) =
                (&mut line.pipe, line.under_way.remove(&id))
            {
                pipe.finish(at, id);
                let Some(PendingFrame { fate, mut message }) = journey.frames.pop_front() else {
                    return;
                };
                let arrives = at + fate.delay;
                if let Some(Event::FrameCharged { latency, .. }) = message.charge_mut() {
                    *latency = arrives.0 - sent.0;
                }
                deliver(Envelope::delivery(arrives, message));
                if !journey.frames.is_empty() {
                    self.starting.insert((arrives, self.sequence), journey);
                    self.sequence += 1;
                }
            }
            return;
        }
        if let Some((_, journey)) = self.starting.pop_first() {
            self.line(journey.direction).start(now, journey);
        }
    }

    fn line(&mut self, direction: Direction) -> &mut SharedLink {
        match direction {
            Direction::Down => &mut self.down,
            Direction::Up => &mut self.up,
        }
    }
}

impl SharedLink {
    fn next_end(&mut self) -> Option<(VirtualTime, TransferId)> {
        self.pipe.as_mut()?.next_end()
    }

    fn start(&mut self, now: VirtualTime, journey: Transmission) {
        if let (Some(pipe), Some(first)) = (&mut self.pipe, journey.frames.front()) {
            let id = pipe.start(now, first.fate.sent, first.fate.rate);
            self.under_way.insert(id, (now, journey));
        }
    }
}
