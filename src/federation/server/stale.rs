//! Uploads of closed rounds that still count: they go into the open round of their phase.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::arrivals::late;
use super::machine::ServerMachine;
use super::round::Arrival;
use crate::federation::closing::Late;
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::event::Event;
use crate::federation::fold::Refusal;
use crate::federation::frames::SentDown;
use crate::policy::{Seat, UpMeta};
use crate::quantity::ClientId;

/// An upload of a closed round, with its seat and what that was sent.
pub(super) struct Stale {
    pub sent: (Seat, Arc<SentDown>),
    pub arrival: Arrival,
}

impl ServerMachine {
    /// Clients that an asynchronous server does not ask again.
    pub(super) fn busy(&self) -> BTreeSet<ClientId> {
        match self.world.rules.closing.is_asynchronous() {
            true => self.underway.values().map(|(seat, _)| seat.client).collect(),
            false => BTreeSet::new(),
        }
    }

    /// Folds an upload into the open round, or keeps it for the next one.
    pub(super) fn stale(
        &mut self,
        stale: Stale,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let open = self.round.as_mut().filter(|round| !round.closed);
        let (Some(round), Late::Fold(rule)) = (open, self.world.rules.closing.late) else {
            self.held.push(stale);
            return Ok(());
        };
        let Stale { sent: (seat, down), arrival } = stale;
        let (base, into, task) = (arrival.round, round.context.round, round.context.period.task);
        let staleness = into.0 - base.0;
        let Some(discount) = rule.weight(staleness) else {
            effects.extend(arrival.charge.map(|charge| Effect::Record(late(charge), None)));
            return Ok(());
        };
        effects.extend(arrival.charge.map(|charge| Effect::Record(charge, None)));
        let (id, client, mut up) = (seat.id, seat.client, arrival.up);
        if let Some(why) = up.fault.take() {
            return self.reject(Refusal { round: base, seat: id, client, why }, effects);
        }
        let event = Event::UpdateStale { round: base, task, seat: id, client, into };
        effects.push(Effect::Record(event, None));
        let meta = UpMeta { seat, base, staleness, discount };
        effects.extend(round.fold_stale(&down, up, meta, &self.desk));
        Ok(())
    }

    /// A round is open again for what came in between.
    pub(super) fn take_held(&mut self, effects: &mut Vec<Effect>) -> Result<(), FederationError> {
        let held = std::mem::take(&mut self.held);
        held.into_iter().try_for_each(|stale| self.stale(stale, effects))
    }

    /// The phase is over: what is under way is late.
    pub(super) fn give_up_stale(&mut self, effects: &mut Vec<Effect>) {
        self.underway.clear();
        let charges = self.held.drain(..).filter_map(|stale| stale.arrival.charge);
        effects.extend(charges.map(|charge| Effect::Record(late(charge), None)));
    }
}
