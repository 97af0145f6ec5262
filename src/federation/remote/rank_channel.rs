//! Channels that carry packets between ranks.

use std::fmt;

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde::{Deserialize, Serialize};

use crate::document::Document;

/// Process of a run that is spread over several. Rank 0 has the event loop, the others compute for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Document)]
#[serde(transparent)]
pub struct Rank(pub u32);

impl Rank {
    /// Rank with the event loop.
    pub const ZERO: Rank = Rank(0);
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

/// Event on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportEvent {
    /// A packet. Those of one rank arrive in the order in which they were sent.
    Packet {
        /// Sender of the packet.
        from: Rank,
        /// Content of the packet.
        bytes: Vec<u8>,
    },
    /// The rank is lost: no packet comes from it or reaches it any more.
    Lost {
        /// Rank that is lost.
        rank: Rank,
        /// Reason, as the carrier reports it.
        why: String,
    },
}

/// A rank's end of a line: rank 0 reaches all others, the others reach rank 0.
pub struct RankChannel {
    outgoing: Sender<(Rank, Vec<u8>)>,
    incoming: Receiver<TransportEvent>,
}

/// Other end of a line, for the carrier of packets.
///
/// Rank 0 ends a run by dropping its line. The carrier then delivers the packets sent before, and drops the ends of the
/// other ranks, which is the signal to them that their work is over.
pub struct RankTransport {
    /// Packets to be delivered.
    pub outgoing: Receiver<(Rank, Vec<u8>)>,
    /// Queue of deliveries.
    pub incoming: Sender<TransportEvent>,
}

impl RankChannel {
    /// Creates both ends of a line.
    pub fn new() -> (RankChannel, RankTransport) {
        let (outgoing, to_carry) = unbounded();
        let (delivered, incoming) = unbounded();
        let carrier = RankTransport { outgoing: to_carry, incoming: delivered };
        (RankChannel { outgoing, incoming }, carrier)
    }

    /// Sends a packet. One to a lost rank is dropped; [`TransportEvent::Lost`] reports the loss.
    pub fn send(&self, to: Rank, bytes: Vec<u8>) {
        let _ = self.outgoing.send((to, bytes));
    }

    /// Returns the queue of deliveries; disconnected after the other side has hung up.
    pub fn incoming(&self) -> &Receiver<TransportEvent> {
        &self.incoming
    }

    /// Returns the outgoing queue, for threads that answer by themselves.
    pub(super) fn outgoing(&self) -> Sender<(Rank, Vec<u8>)> {
        self.outgoing.clone()
    }
}
