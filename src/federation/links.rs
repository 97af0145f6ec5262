//! Latency of frames on the simulated clock, and losses.
//!
//! `round trip / 2 + (bytes / bandwidth) * jitter`: bandwidths and round trip are drawn once per
//! client, jitter per transfer, all from [`Domain::Link`]; losses from [`Domain::Fault`]; rounded
//! once to whole nanoseconds.

use super::bandwidth::{self, Ask, RATE_UNIT};
use super::event::Direction;
use super::faults::{FaultRules, Victim};
use super::rules::LinkRules;
use crate::numerics::distributions::{normal_pair, unit};
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ClientId, Round, VirtualTime};

/// The links of a run.
#[derive(Clone, Debug)]
pub struct Links {
    rules: LinkRules,
    faults: FaultRules,
    seed: u64,
}

/// Properties of a client's link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Download bandwidth in bytes per second; may be infinite.
    pub down: f64,
    /// Upload bandwidth in bytes per second; may be infinite.
    pub up: f64,
    /// Round trip in seconds.
    pub round_trip: f64,
}

/// Key of a transfer: draws of different transfers are independent.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Client at the far end of the server's link.
    pub client: ClientId,
    /// Round of the transfer.
    pub round: Round,
    /// Unit of the client plus one, or zero.
    pub unit: u32,
    /// Number of the frame among those of its participant and direction.
    pub frame: u32,
    /// Direction of the transfer.
    pub direction: Direction,
}

impl Transfer {
    fn participant(&self) -> Victim {
        Victim { client: self.client, round: self.round, unit: self.unit }
    }
}

/// Frames from this number on are the engine's own: faults strike those of methods.
pub const PROTOCOL_FRAMES: u32 = 1 << 16;

/// Outcome of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// True if it arrives.
    pub arrives: bool,
    /// Bytes that crossed the link.
    pub sent: u64,
    /// Time from sending until it arrived or was lost, if the server's line does not limit it.
    pub latency: VirtualTime,
    /// Rate of the client's link for it, in [`RATE_UNIT`]s.
    pub rate: u64,
    /// Half a round trip.
    pub delay: VirtualTime,
}

impl Fate {
    /// Returns the outcome of a transfer that arrives at once.
    pub fn instant(bytes: u64) -> Fate {
        let none = VirtualTime::ZERO;
        Fate { arrives: true, sent: bytes, latency: none, rate: u64::MAX, delay: none }
    }
}

impl Links {
    /// Creates the links of these rules under a run's seed.
    pub fn new(rules: LinkRules, faults: FaultRules, seed: u64) -> Links {
        Links { rules, faults, seed }
    }

    /// Returns a client's link.
    pub fn link(&self, client: ClientId) -> Link {
        let rules = &self.rules;
        let mut rng = StreamKey::new(self.seed, Domain::Link).client(client.0).rng();
        let (first, other) = normal_pair(&mut rng);
        let rho = rules.correlation.clamp(-1.0, 1.0);
        let second = rho * first + (1.0 - rho * rho).sqrt() * other;
        Link {
            down: rules.down.at_normal(first),
            up: rules.up.at_normal(second),
            round_trip: rules.round_trip_ms.draw(&mut rng) / 1e3,
        }
    }

    /// Returns the outcome of a frame of this size.
    pub fn send(&self, transfer: Transfer, bytes: u64) -> Fate {
        let whole = self.whole(transfer, bytes);
        let loss = match transfer.direction {
            Direction::Down => self.faults.lose_down,
            Direction::Up => self.faults.lose_up,
        };
        let doomed = transfer.frame < PROTOCOL_FRAMES
            && self.faults.loses(self.seed, transfer.participant(), transfer.direction);
        if loss > 0.0 || doomed {
            let mut rng = key(self.seed, Domain::Fault, transfer).rng();
            if unit(&mut rng) < loss || doomed {
                let part = unit(&mut rng);
                let of = |value: u64| (value as f64 * part) as u64;
                return Fate {
                    arrives: false,
                    sent: of(bytes),
                    latency: VirtualTime(of(whole.latency.0)),
                    ..whole
                };
            }
        }
        whole
    }

    /// Returns the times at which frames sent at `starts` arrive or are lost.
    ///
    /// They have the server's line of this direction for themselves.
    pub fn arrivals(
        &self,
        direction: Direction,
        starts: &[VirtualTime],
        fates: &[Fate],
    ) -> Vec<VirtualTime> {
        let server = match direction {
            Direction::Down => self.rules.server_down,
            Direction::Up => self.rules.server_up,
        };
        let frames = starts.iter().zip(fates);
        if !server.is_finite() {
            return frames.map(|(start, fate)| *start + fate.latency).collect();
        }
        let ask = |(start, fate): (&VirtualTime, &Fate)| Ask {
            start: *start,
            bytes: fate.sent,
            own: fate.rate,
        };
        let asks: Vec<Ask> = frames.map(ask).collect();
        let ends = bandwidth::ends(server as u64, &asks);
        ends.into_iter().zip(fates).map(|(end, fate)| end + fate.delay).collect()
    }

    fn whole(&self, transfer: Transfer, bytes: u64) -> Fate {
        if self.rules.is_ideal() {
            return Fate::instant(bytes);
        }
        let link = self.link(transfer.client);
        let bandwidth = match transfer.direction {
            Direction::Down => link.down,
            Direction::Up => link.up,
        };
        let jitter = self.rules.jitter.draw(&mut key(self.seed, Domain::Link, transfer).rng());
        let (delay, travel) = (link.round_trip / 2.0, bytes as f64 / bandwidth * jitter);
        Fate {
            arrives: true,
            sent: bytes,
            latency: VirtualTime::from_seconds(delay + travel),
            // The cast saturates: an infinite bandwidth becomes the largest number.
            rate: (bandwidth / jitter * RATE_UNIT as f64) as u64,
            delay: VirtualTime::from_seconds(delay),
        }
    }
}

/// Returns the stream key of a transfer.
///
/// Steps begin at 16: a participant's steps 0 to 15 are draws of its client.
fn key(seed: u64, domain: Domain, transfer: Transfer) -> StreamKey {
    let way = match transfer.direction {
        Direction::Down => 0,
        Direction::Up => 1,
    };
    StreamKey::new(seed, domain)
        .client(transfer.client.0)
        .round(transfer.round.0)
        .unit(transfer.unit)
        .step(16 + 2 * u64::from(transfer.frame) + way)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::testing::mobile_links;

    fn transfer(client: u32, direction: Direction) -> Transfer {
        Transfer { client: ClientId(client), round: Round(1), unit: 0, frame: 0, direction }
    }

    #[test]
    fn ideal_links_are_instant_and_lossless() {
        let links = Links::new(LinkRules::IDEAL, FaultRules::default(), 1);
        let fate = links.send(transfer(3, Direction::Up), 1 << 40);
        assert_eq!(fate, Fate::instant(1 << 40));
    }

    #[test]
    fn mobile_links_follow_their_table() {
        let links = Links::new(mobile_links(), FaultRules::default(), 1);
        let all: Vec<Link> = (0..4001).map(|c| links.link(ClientId(c))).collect();
        let logs = |f: fn(&Link) -> f64, median: f64| -> Vec<f64> {
            all.iter().map(|link| libm::log(f(link) / median)).collect()
        };
        let down = logs(|l| l.down, 4.3e6);
        let up = logs(|l| l.up, 3.3e6);
        let mean = |a: &[f64], b: &[f64]| {
            a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>() / a.len() as f64
        };
        assert!((mean(&down, &down).sqrt() - 0.5).abs() < 0.02);
        assert!((mean(&up, &up).sqrt() - 0.7).abs() < 0.03);
        assert!((mean(&down, &up) / (0.5 * 0.7) - 0.45).abs() < 0.05);
        assert!(all.iter().all(|l| (0.02..=0.4).contains(&l.round_trip)));
        let (small, large) = (
            links.send(transfer(5, Direction::Down), 1_000).latency,
            links.send(transfer(5, Direction::Down), 10_000_000).latency,
        );
        assert!(large > small && small > VirtualTime::ZERO);
    }

    #[test]
    fn losses_have_their_rate_and_send_a_part() {
        let faults = FaultRules { lose_up: 0.25, ..FaultRules::default() };
        let links = Links::new(mobile_links(), faults, 1);
        let fates: Vec<Fate> =
            (0..2000).map(|c| links.send(transfer(c, Direction::Up), 1000)).collect();
        let lost: Vec<&Fate> = fates.iter().filter(|f| !f.arrives).collect();
        assert!((420..580).contains(&lost.len()), "{}", lost.len());
        assert!(lost.iter().all(|f| f.sent < 1000));
        assert!((0..2000).all(|c| links.send(transfer(c, Direction::Down), 1000).arrives));
    }
}
