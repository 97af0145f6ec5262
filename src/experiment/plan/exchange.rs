//! How long the exchanges of a round take.

use crate::federation::Direction;
use crate::federation::links::{Fate, Links};
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

/// When the Up of each arrives, where all Downs are sent at `start`.
pub(super) fn ends(start: VirtualTime, exchanges: &[Exchange], links: &Links) -> Vec<VirtualTime> {
    let starts = vec![start; exchanges.len()];
    let downs: Vec<Fate> = exchanges.iter().map(|exchange| exchange.down).collect();
    let arrived = links.arrivals(Direction::Down, &starts, &downs);
    let works = exchanges.iter().map(|exchange| exchange.work);
    let trained: Vec<VirtualTime> = arrived.into_iter().zip(works).map(|(a, b)| a + b).collect();
    let ups: Vec<Fate> = exchanges.iter().map(|exchange| exchange.up).collect();
    links.arrivals(Direction::Up, &trained, &ups)
}
