//! What carries parcels between ranks.

use std::fmt;

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde::{Deserialize, Serialize};

use crate::document::Document;

/// A process of a run that several compute. Rank 0 has the event loop, the others work for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Document)]
#[serde(transparent)]
pub struct Rank(pub u32);

impl Rank {
    /// The one with the event loop.
    pub const ZERO: Rank = Rank(0);
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

/// What a line brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportEvent {
    /// A parcel. Those of one rank arrive in the order in which they were sent.
    Parcel {
        /// Who sent it.
        from: Rank,
        bytes: Vec<u8>,
    },
    /// Nothing will come from this rank any more, and nothing reaches it.
    Lost {
        rank: Rank,
        /// As the carrier tells it.
        why: String,
    },
}

/// A rank's end of a line: rank 0 reaches all others, the others reach rank 0.
pub struct RankChannel {
    outgoing: Sender<(Rank, Vec<u8>)>,
    incoming: Receiver<TransportEvent>,
}

/// The other end, which belongs to whoever carries parcels. Rank 0 hangs up by dropping its line: its carrier delivers
/// what was sent before, and then those of the others drop their ends, which the others take for the end of their work.
pub struct RankTransport {
    /// What is to be delivered.
    pub outgoing: Receiver<(Rank, Vec<u8>)>,
    /// Where deliveries go.
    pub incoming: Sender<TransportEvent>,
}

impl RankChannel {
    /// Both ends.
    pub fn new() -> (RankChannel, RankTransport) {
        let (outgoing, to_carry) = unbounded();
        let (delivered, incoming) = unbounded();
        let carrier = RankTransport { outgoing: to_carry, incoming: delivered };
        (RankChannel { outgoing, incoming }, carrier)
    }

    /// Sends a parcel. To a rank that is lost it goes nowhere; who cares is told by [`TransportEvent::Lost`].
    pub fn send(&self, to: Rank, bytes: Vec<u8>) {
        let _ = self.outgoing.send((to, bytes));
    }

    /// Deliveries, as they come; disconnected when the other side has hung up.
    pub fn incoming(&self) -> &Receiver<TransportEvent> {
        &self.incoming
    }

    /// For threads that answer by themselves.
    pub(super) fn outgoing(&self) -> Sender<(Rank, Vec<u8>)> {
        self.outgoing.clone()
    }
}
