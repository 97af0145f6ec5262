//! Ranks that are threads of this process: the whole path of a packet without a network.
//!
//! A router takes the place of MPI. It can lose a rank after a number of packets, or hold answers back and let later
//! ones overtake; no digest may move.

use std::collections::BTreeMap;
use std::time::Duration;

use crossbeam_channel::{Select, Sender};
use rand::RngCore;

use super::rank_channel::{Rank, RankChannel, RankTransport, TransportEvent};
use crate::numerics::distributions::below;
use crate::numerics::streams::{Domain, StreamKey};

/// Fault in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// No fault.
    Nothing,
    /// A rank is lost after it has sent `after` packets, the last of which is lost with it.
    Loses {
        /// Rank that is lost, from 1.
        rank: Rank,
        /// Number of packets from the rank until then, with the one that is lost.
        after: u32,
    },
    /// Answers overtake each other, by draws from this seed.
    Shuffles(u64),
}

/// Starts `ranks` other ranks and returns the line to them.
///
/// Each runs `work` with its own line on its own thread. All end when the line is dropped.
///
/// # Errors
/// Threads that cannot be started.
pub fn loopback<W>(ranks: u32, fault: InjectedFault, work: W) -> std::io::Result<RankChannel>
where
    W: Fn(Rank, RankChannel) + Clone + Send + 'static,
{
    let (line, carrier) = RankChannel::new();
    let mut others = BTreeMap::new();
    for rank in (1..=ranks).map(Rank) {
        let (line, carrier) = RankChannel::new();
        let work = work.clone();
        let name = format!("rank-{}", rank.0);
        std::thread::Builder::new().name(name).spawn(move || work(rank, line))?;
        others.insert(rank, Other { carrier, sent: 0 });
    }
    let router = Router { carrier, others, fault, delayed: Vec::new() };
    std::thread::Builder::new().name("router".into()).spawn(move || router.route())?;
    Ok(line)
}

/// Another rank, as the router sees it.
struct Other {
    carrier: RankTransport,
    /// Number of packets that it sent.
    sent: u32,
}

struct Router {
    /// Transport of rank 0.
    carrier: RankTransport,
    others: BTreeMap<Rank, Other>,
    fault: InjectedFault,
    /// Answers that were held back.
    delayed: Vec<TransportEvent>,
}

/// Maximum time that an answer is held back.
const HOLD: Duration = Duration::from_millis(5);

impl Router {
    fn route(mut self) {
        let mut rng = match self.fault {
            InjectedFault::Shuffles(seed) => Some(StreamKey::new(seed, Domain::Fault).rng()),
            _ => None,
        };
        loop {
            let end = |(rank, other): (&Rank, &Other)| (*rank, other.carrier.outgoing.clone());
            let ends: Vec<_> = self.others.iter().map(end).collect();
            let own = self.carrier.outgoing.clone();
            let mut select = Select::new();
            let zero = select.recv(&own);
            ends.iter().for_each(|(_, outgoing)| _ = select.recv(outgoing));
            let ready = match self.delayed.is_empty() {
                true => Ok(select.ready()),
                false => select.ready_timeout(HOLD),
            };
            match ready {
                Err(_) => self.release(0),
                Ok(ready) if ready == zero => match own.try_recv() {
                    Ok((to, bytes)) => self.deliver(to, bytes),
                    Err(error) if error.is_empty() => {}
                    // Rank 0 is gone: so are the lines of the others.
                    Err(_) => return,
                },
                Ok(ready) => {
                    let (from, outgoing) = &ends[ready - 1];
                    match outgoing.try_recv() {
                        Ok((_, bytes)) => self.bring(*from, bytes),
                        Err(error) if error.is_empty() => {}
                        Err(_) => self.lose(*from, "its thread has ended"),
                    }
                    if let Some(rng) = &mut rng
                        && !self.delayed.is_empty()
                        && (self.delayed.len() > 2 || rng.next_u32().is_multiple_of(2))
                    {
                        let pick = below(rng, self.delayed.len() as u64) as usize;
                        self.release(pick);
                    }
                }
            }
        }
    }

    fn deliver(&self, to: Rank, bytes: Vec<u8>) {
        if let Some(other) = self.others.get(&to) {
            put(&other.carrier.incoming, TransportEvent::Packet { from: Rank::ZERO, bytes });
        }
    }

    fn bring(&mut self, from: Rank, bytes: Vec<u8>) {
        let Some(other) = self.others.get_mut(&from) else { return };
        other.sent += 1;
        match self.fault {
            InjectedFault::Loses { rank, after } if rank == from && other.sent >= after => {
                self.lose(from, "it was killed");
            }
            InjectedFault::Shuffles(_) => self.delayed.push(TransportEvent::Packet { from, bytes }),
            _ => put(&self.carrier.incoming, TransportEvent::Packet { from, bytes }),
        }
    }

    fn release(&mut self, place: usize) {
        put(&self.carrier.incoming, self.delayed.remove(place));
    }

    /// Notifies both sides that the other is lost; no later packet reaches either.
    fn lose(&mut self, rank: Rank, why: &str) {
        let Some(other) = self.others.remove(&rank) else { return };
        let lost = |rank| TransportEvent::Lost { rank, why: why.to_owned() };
        put(&other.carrier.incoming, lost(Rank::ZERO));
        self.delayed.drain(..).for_each(|delayed| put(&self.carrier.incoming, delayed));
        put(&self.carrier.incoming, lost(rank));
    }
}

/// Delivers an event; one to a rank that has left is dropped.
fn put(to: &Sender<TransportEvent>, arrival: TransportEvent) {
    let _ = to.send(arrival);
}
