//! Packets through MPI: a head with the length, then the bytes, between rank 0 and every other rank.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};

use super::raw::{MpiTransfer, Tag, Universe};
use crate::federation::remote::{Rank, RankTransport, TransportEvent};

/// Way in which the transport ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// All ranks said goodbye.
    Whole,
    /// A rank was lost, so MPI cannot be finalized.
    Lame,
    /// This process wants all to end.
    Aborted,
}

/// Heads that close the channel, in place of a length: without a lost rank, and after one.
const CLOSE: u64 = u64::MAX;
const CLOSE_LAME: u64 = u64::MAX - 1;

/// Limit of bytes on their way to this process at a time, or one packet.
const IN_FLIGHT: usize = 1 << 30;

/// Time that the others may take to say goodbye.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause when nothing happens: doubled from the first to the second.
const NAP: (Duration, Duration) = (Duration::from_micros(10), Duration::from_millis(1));

/// Number of checks before a pause while bytes are in transit.
const LOOKS: u32 = 200;

pub(super) struct Pump<'a> {
    universe: &'a Universe,
    me: u32,
    peers: BTreeMap<u32, Peer<'a>>,
    outgoing: Receiver<(Rank, Vec<u8>)>,
    /// `None` after rank 0 has closed the channel.
    incoming: Option<Sender<TransportEvent>>,
    abort: &'a AtomicBool,
    lost: bool,
    /// Time at which this side said goodbye.
    closing: Option<Instant>,
}

/// Another rank.
struct Peer<'a> {
    reading: ReceiveState<'a>,
    /// The first one is tested; MPI keeps the order.
    sending: VecDeque<MpiTransfer<'a>>,
    /// True if the rank has said goodbye.
    closed: bool,
}

enum ReceiveState<'a> {
    Head(MpiTransfer<'a>),
    /// A body of this length that waits until there is room.
    Announced(usize),
    Body(MpiTransfer<'a>),
    /// Nothing will come.
    Nothing,
}

impl<'a> Pump<'a> {
    pub fn new(
        universe: &'a Universe,
        (me, size): (u32, u32),
        RankTransport { outgoing, incoming }: RankTransport,
        abort: &'a AtomicBool,
    ) -> Pump<'a> {
        let others = if me == 0 { 1..size } else { 0..1 };
        let silent = |rank| {
            (rank, Peer { reading: ReceiveState::Nothing, sending: VecDeque::new(), closed: false })
        };
        let mut pump = Pump {
            universe,
            me,
            peers: others.clone().map(silent).collect(),
            outgoing,
            incoming: Some(incoming),
            abort,
            lost: false,
            closing: None,
        };
        others.for_each(|rank| pump.listen(rank));
        pump
    }

    /// Carries until both sides have said goodbye.
    pub fn run(mut self) -> Ending {
        let (mut nap, mut looks) = (NAP.0, 0);
        loop {
            if self.abort.load(Ordering::SeqCst) {
                return Ending::Aborted;
            }
            if let Some(ending) = self.ending() {
                return ending;
            }
            let mut moved = self.post();
            let ranks: Vec<u32> = self.peers.keys().copied().collect();
            for rank in ranks {
                moved |= self.progress(rank);
            }
            if moved {
                (nap, looks) = (NAP.0, 0);
                continue;
            }
            if self.is_busy() && looks < LOOKS {
                looks += 1;
                std::thread::yield_now();
                continue;
            }
            self.nap(nap);
            nap = NAP.1.min(nap * 2);
        }
    }

    /// Sleeps, unless something is to be sent.
    fn nap(&mut self, nap: Duration) {
        if self.closing.is_some() {
            return std::thread::sleep(nap);
        }
        match self.outgoing.recv_timeout(nap) {
            Ok((to, bytes)) => self.send(to.0, bytes),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if self.me == 0 => {}
            // A worker that has nothing more to say still listens to rank 0.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(nap),
        }
    }

    /// Takes what is to be sent. Says goodbye when rank 0 has hung up.
    fn post(&mut self) -> bool {
        let mut moved = false;
        while self.closing.is_none() {
            match self.outgoing.try_recv() {
                Ok((to, bytes)) => self.send(to.0, bytes),
                Err(TryRecvError::Disconnected) if self.me == 0 => self.close(),
                Err(_) => break,
            }
            moved = true;
        }
        moved
    }

    fn send(&mut self, to: u32, bytes: Vec<u8>) {
        let head = self.start(to, Tag::Head, (bytes.len() as u64).to_le_bytes().into());
        if head && !bytes.is_empty() {
            self.start(to, Tag::Body, bytes);
        }
    }

    /// Begins a transfer to a rank. Returns false if the rank is lost.
    fn start(&mut self, to: u32, tag: Tag, bytes: Vec<u8>) -> bool {
        let Some(peer) = self.peers.get_mut(&to) else { return false };
        match self.universe.send(to, tag, bytes) {
            Ok(transfer) => peer.sending.push_back(transfer),
            Err(why) => {
                self.lose(to, why);
                return false;
            }
        }
        true
    }

    fn close(&mut self) {
        self.closing = Some(Instant::now());
        let word = if self.lost { CLOSE_LAME } else { CLOSE };
        let ranks: Vec<u32> = self.peers.keys().copied().collect();
        for rank in ranks {
            self.start(rank, Tag::Head, word.to_le_bytes().into());
        }
    }

    fn progress(&mut self, rank: u32) -> bool {
        let moved = self.push(rank).and_then(|sent| Ok(self.pull(rank)? || sent));
        moved.unwrap_or_else(|why| {
            self.lose(rank, why);
            true
        })
    }

    /// Returns true if a transfer to the rank was completed.
    fn push(&mut self, rank: u32) -> Result<bool, String> {
        let Some(peer) = self.peers.get_mut(&rank) else { return Ok(false) };
        let mut moved = false;
        while let Some(first) = peer.sending.front_mut() {
            if !first.is_over()? {
                break;
            }
            peer.sending.pop_front();
            moved = true;
        }
        Ok(moved)
    }

    /// Returns true if something has arrived.
    fn pull(&mut self, rank: u32) -> Result<bool, String> {
        let expected = self.expected();
        let Some(peer) = self.peers.get_mut(&rank) else { return Ok(false) };
        match &mut peer.reading {
            ReceiveState::Nothing => return Ok(false),
            ReceiveState::Head(transfer) | ReceiveState::Body(transfer) => {
                if !transfer.is_over()? {
                    return Ok(false);
                }
            }
            ReceiveState::Announced(length) => {
                if expected > 0 && expected + *length > IN_FLIGHT {
                    return Ok(false);
                }
            }
        }
        match std::mem::replace(&mut peer.reading, ReceiveState::Nothing) {
            ReceiveState::Head(transfer) => {
                let bytes = transfer.into_bytes();
                let word = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                match word {
                    CLOSE | CLOSE_LAME => self.bid_farewell(rank, word),
                    0 => self.deliver(rank, Vec::new()),
                    length => peer.reading = ReceiveState::Announced(length as usize),
                }
            }
            ReceiveState::Announced(length) => {
                peer.reading =
                    ReceiveState::Body(self.universe.receive(rank, Tag::Body, length)?);
            }
            ReceiveState::Body(transfer) => self.deliver(rank, transfer.into_bytes()),
            ReceiveState::Nothing => {}
        }
        Ok(true)
    }

    /// Bytes that are on their way here.
    fn expected(&self) -> usize {
        let coming = self.peers.values().map(|peer| match &peer.reading {
            ReceiveState::Body(transfer) => transfer.len(),
            _ => 0,
        });
        coming.sum()
    }

    fn listen(&mut self, rank: u32) {
        let head = self.universe.receive(rank, Tag::Head, size_of::<u64>());
        match (head, self.peers.get_mut(&rank)) {
            (Ok(transfer), Some(peer)) => peer.reading = ReceiveState::Head(transfer),
            (Ok(_), None) => {}
            (Err(why), _) => self.lose(rank, why),
        }
    }

    fn deliver(&mut self, from: u32, bytes: Vec<u8>) {
        self.arrive(TransportEvent::Packet { from: Rank(from), bytes });
        self.listen(from);
    }

    fn arrive(&self, arrival: TransportEvent) {
        if let Some(incoming) = &self.incoming {
            // Rank 0 listens no longer once it has hung up.
            let _ = incoming.send(arrival);
        }
    }

    /// Handles a goodbye: rank 0's is answered, the others' is the answer.
    fn bid_farewell(&mut self, rank: u32, word: u64) {
        if let Some(peer) = self.peers.get_mut(&rank) {
            peer.closed = true;
        }
        if self.me == 0 && self.closing.is_none() {
            return self.lose(rank, "it left".into());
        }
        if self.me != 0 {
            self.lost |= word == CLOSE_LAME;
            self.incoming = None;
            self.close();
        }
    }

    fn lose(&mut self, rank: u32, why: String) {
        let Some(peer) = self.peers.remove(&rank) else { return };
        // One that has said goodbye may end before the last bytes to it are known to be there.
        if !peer.closed {
            self.lost = true;
            self.arrive(TransportEvent::Lost { rank: Rank(rank), why });
        }
    }

    /// Returns true if bytes are in transit.
    fn is_busy(&self) -> bool {
        self.peers
            .values()
            .any(|peer| !peer.sending.is_empty() || matches!(peer.reading, ReceiveState::Body(_)))
    }

    fn ending(&self) -> Option<Ending> {
        let since = self.closing?;
        let ending = if self.lost { Ending::Lame } else { Ending::Whole };
        let done = |peer: &Peer<'_>| peer.closed && peer.sending.is_empty();
        if self.peers.values().all(done) {
            return Some(ending);
        }
        (since.elapsed() > PATIENCE).then_some(Ending::Lame)
    }
}
