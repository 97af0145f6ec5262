//! Availability as recorded: transitions per client.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::quantity::{ClientId, VirtualTime};
use crate::scenario::Transition;

/// Recorded transitions. A client without any is always on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AvailabilityTrace {
    transitions: Arc<BTreeMap<ClientId, Vec<(VirtualTime, bool)>>>,
    /// The recording starts again after so long.
    repeat: Option<VirtualTime>,
}

impl AvailabilityTrace {
    /// Creates a trace of transitions in any order.
    ///
    /// It starts again after `repeat_s` seconds, or never if that is 0. Of several transitions at one time the last
    /// counts. Before its first one a client is in the other state, or, if the recording starts again, in its last one.
    pub fn new(lines: &[Transition], repeat_s: f64) -> AvailabilityTrace {
        let repeat = (repeat_s > 0.0).then(|| VirtualTime::from_seconds(repeat_s));
        let mut clients: BTreeMap<ClientId, BTreeMap<VirtualTime, bool>> = BTreeMap::new();
        for (client, at, on) in lines {
            let at = VirtualTime::from_seconds(*at);
            if repeat.is_none_or(|repeat| at < repeat) {
                clients.entry(ClientId(*client)).or_default().insert(at, *on);
            }
        }
        let list = |(client, lines): (_, BTreeMap<_, _>)| (client, lines.into_iter().collect());
        let transitions = Arc::new(clients.into_iter().map(list).collect());
        AvailabilityTrace { transitions, repeat: repeat.filter(|repeat| repeat.0 > 0) }
    }

    /// Returns the first time from `at` on when the client is `wanted`.
    pub(super) fn next(
        &self,
        client: ClientId,
        at: VirtualTime,
        wanted: bool,
    ) -> Option<VirtualTime> {
        let Some(lines) = self.transitions.get(&client) else {
            return wanted.then_some(at);
        };
        let (turn, within) = match self.repeat {
            Some(repeat) => (at.0 / repeat.0 * repeat.0, VirtualTime(at.0 % repeat.0)),
            None => (0, at),
        };
        let before = lines.partition_point(|(time, _)| *time <= within);
        let state = match (before, self.repeat) {
            (0, None) => !lines[0].1,
            (0, Some(_)) => lines[lines.len() - 1].1,
            (before, _) => lines[before - 1].1,
        };
        if state == wanted {
            return Some(at);
        }
        let rest = lines[before..].iter().find(|(_, on)| *on == wanted);
        let rest = rest.map(|(time, _)| VirtualTime(turn + time.0));
        rest.or_else(|| {
            let again = lines.iter().find(|(_, on)| *on == wanted)?.0;
            Some(VirtualTime(turn + self.repeat?.0 + again.0))
        })
    }
}
