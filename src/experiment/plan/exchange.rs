//! How long the exchanges of a round take.

use crate::federation::LinkRules;
use crate::federation::bandwidth::{self, Ask};
use crate::federation::links::Fate;
use crate::quantity::VirtualTime;

/// A Down, the work it asks for, and the Up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub down: Fate,
    pub work: VirtualTime,
    pub up: Fate,
}

impl Exchange {
    /// One that crosses no link.
    pub fn free() -> Exchange {
        Exchange { down: Fate::instant(0), work: VirtualTime::ZERO, up: Fate::instant(0) }
    }
}

/// When the Up of each arrives, counted from the opening of the round.
pub(super) fn ends(exchanges: &[Exchange], rules: &LinkRules) -> Vec<VirtualTime> {
    let starts = vec![VirtualTime::ZERO; exchanges.len()];
    let downs: Vec<Fate> = exchanges.iter().map(|exchange| exchange.down).collect();
    let arrived = arrivals(&starts, &downs, rules.server_down);
    let works = exchanges.iter().map(|exchange| exchange.work);
    let trained: Vec<VirtualTime> = arrived.into_iter().zip(works).map(|(a, b)| a + b).collect();
    let ups: Vec<Fate> = exchanges.iter().map(|exchange| exchange.up).collect();
    arrivals(&trained, &ups, rules.server_up)
}

/// When frames arrive that are sent at these times through a line of so many bytes per second.
fn arrivals(starts: &[VirtualTime], fates: &[Fate], server: f64) -> Vec<VirtualTime> {
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
