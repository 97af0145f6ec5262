//! Clients at work for an asynchronous server while rounds close without them.

use std::collections::BTreeSet;

use crate::federation::{Closing, ClosingRules, Late};
use crate::quantity::{ClientId, Round, VirtualTime};

/// They, where the server is asynchronous; nobody elsewhere.
pub(super) struct Underway {
    rules: ClosingRules,
    /// Who, since which round, and when the update arrives.
    clients: Vec<(ClientId, Round, VirtualTime)>,
}

impl Underway {
    pub fn new(rules: ClosingRules) -> Underway {
        Underway { rules, clients: Vec::new() }
    }

    /// Clients that an asynchronous server does not ask again.
    pub fn busy(&self) -> BTreeSet<ClientId> {
        self.clients.iter().map(|(client, _, _)| *client).collect()
    }

    /// The phase is over.
    pub fn clear(&mut self) {
        self.clients.clear();
    }

    /// How long the round takes that was opened `now`, if the updates it waits for arrive so long
    /// afterwards.
    pub fn close(
        &mut self,
        closing: &Closing,
        (round, now): (Round, VirtualTime),
        awaited: &[(ClientId, VirtualTime)],
    ) -> VirtualTime {
        let (Late::Fold(rule), true) = (self.rules.late, closing.any) else {
            return closing.duration(awaited.iter().map(|(_, after)| *after).collect());
        };
        let asked = awaited.iter().map(|(client, after)| (*client, round, now + *after));
        self.clients.extend(asked);
        let counts = |base: &Round| rule.weight(round.0 - base.0).is_some();
        let due = self.clients.iter().filter(|(_, base, _)| counts(base));
        let after = |at: &VirtualTime| VirtualTime(at.0.saturating_sub(now.0));
        let takes = closing.duration(due.map(|(_, _, at)| after(at)).collect());
        self.clients.retain(|(_, _, at)| after(at) > takes);
        takes
    }
}
