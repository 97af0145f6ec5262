//! What comes back from the seats of a round, until the round can close.

use super::machine::{ServerMachine, ToServer, here};
use super::round::Arrival;
use crate::federation::effect::{Effect, Message};
use crate::federation::error::FederationError;
use crate::federation::event::Event;
use crate::federation::rules::OnBadUpdate;
use crate::quantity::{SeatId, VirtualTime};

impl ServerMachine {
    pub(super) fn arrived(
        &mut self,
        arrival: Arrival,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let Arrival { seat, mut up, charge } = arrival;
        effects.extend(charge.map(|charge| Effect::Record(charge, None)));
        let Some(round) = &mut self.round else { return Ok(()) };
        match up.fault.take() {
            Some(why) => {
                round.skip(seat);
                self.reject(seat, why, effects)
            }
            None => {
                round.fold(seat, up, self.world.rules.bias, effects);
                Ok(())
            }
        }
    }

    /// Records an upload that must not be used, and applies the scenario's rule.
    pub(super) fn reject(
        &self,
        seat: SeatId,
        why: String,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let Some(round) = &self.round else { return Ok(()) };
        let (client, context) = (round.client(seat), &round.context);
        let (number, task) = (context.round, context.period.task);
        let event = Event::UpdateRejected { round: number, task, seat, client, why: why.clone() };
        effects.push(Effect::Record(event, None));
        match self.world.rules.on_bad_update {
            OnBadUpdate::Drop => Ok(()),
            OnBadUpdate::Abort => {
                Err(FederationError::BadUpdate { client, round: number, seat, why })
            }
        }
    }

    pub(super) fn lost(&mut self, seat: SeatId, charge: Option<Event>, effects: &mut Vec<Effect>) {
        effects.extend(charge.map(|charge| Effect::Record(charge, None)));
        if let Some(round) = &mut self.round {
            round.skip(seat);
            let event = Event::ClientFailed {
                round: round.context.round,
                task: round.context.period.task,
                seat,
                client: round.client(seat),
                reason: "lost".to_string(),
                detail: String::new(),
            };
            effects.push(Effect::Record(event, None));
        }
    }

    pub(super) fn close_when_complete(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        let Some(round) = self.round.as_mut().filter(|round| round.is_complete()) else { return };
        let Some(folded) = round.folded.take() else { return };
        let now = match &self.world.rules.privacy.secure {
            Some(rules) => round.unmask(&self.world, rules, now, effects),
            None => now,
        };
        self.doing = "waits for uploads to be merged";
        let pending = async move {
            let folded = folded.await.map_err(|_| "a worker is gone".to_string());
            Message::Server(ToServer::Folded(folded))
        };
        let (at, class, to) = here(now);
        effects.push(Effect::Await { at, class, to, pending: Box::pin(pending) });
    }
}
