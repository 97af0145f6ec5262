//! How long the exchanges of a round take.

use std::collections::BTreeMap;

use crate::federation::Direction;
use crate::federation::links::{Fate, Links};
use crate::quantity::{ClientId, VirtualTime};

/// A Down, the work it asks for, and the Up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Whose; a client works on one seat after the other.
    pub client: ClientId,
    pub down: Fate,
    pub work: VirtualTime,
    pub up: Fate,
}

impl Exchange {
    /// One that crosses no link.
    pub fn free(client: ClientId) -> Exchange {
        Exchange { client, down: Fate::instant(0), work: VirtualTime::ZERO, up: Fate::instant(0) }
    }
}

/// Until when clients work, since the start of the run.
pub(super) type Busy = BTreeMap<ClientId, VirtualTime>;

/// When the Up of each arrives, where all Downs are sent at `start`. All times are since `now`.
pub(super) fn arrivals(
    (now, start): (VirtualTime, VirtualTime),
    exchanges: &[Exchange],
    links: &Links,
    busy: &mut Busy,
) -> Vec<VirtualTime> {
    let starts = vec![start; exchanges.len()];
    let downs: Vec<Fate> = exchanges.iter().map(|exchange| exchange.down).collect();
    let arrived = links.arrivals(Direction::Down, &starts, &downs);
    let trained = trained(exchanges, now, &arrived, busy);
    let ups: Vec<Fate> = exchanges.iter().map(|exchange| exchange.up).collect();
    links.arrivals(Direction::Up, &trained, &ups)
}

/// When work is over that begins when its Down has arrived and its client is free.
fn trained(
    exchanges: &[Exchange],
    now: VirtualTime,
    arrived: &[VirtualTime],
    busy: &mut Busy,
) -> Vec<VirtualTime> {
    let mut order: Vec<usize> = (0..exchanges.len()).collect();
    order.sort_by_key(|at| (arrived[*at], *at));
    let mut trained = vec![VirtualTime::ZERO; exchanges.len()];
    for at in order {
        let until = busy.entry(exchanges[at].client).or_default();
        *until = (*until).max(now + arrived[at]) + exchanges[at].work;
        trained[at] = VirtualTime(until.0 - now.0);
    }
    trained
}
