//! What comes back from the seats of a round, until the round can close.

use super::machine::{ServerMachine, ToServer, tell_result};
use super::round::{Arrival, OpenRound};
use super::stale::Stale;
use crate::federation::closing::Late;
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::event::{Event, FrameOutcome};
use crate::federation::fold::Refusal;
use crate::federation::rules::OnBadUpdate;
use crate::quantity::{Round, SeatId, VirtualTime};

impl ServerMachine {
    pub(super) fn arrived(
        &mut self,
        arrival: Arrival,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        // The seat is accounted for when its second copy comes.
        let copy = arrival.charge.clone().filter(|_| arrival.twice);
        let result = self.first_arrival(arrival, effects);
        let copy = copy.map(|charge| charge.with_outcome(FrameOutcome::Duplicate));
        effects.extend(copy.map(|copy| Effect::Record(copy, None)));
        result
    }

    fn first_arrival(
        &mut self,
        arrival: Arrival,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let Arrival { round, seat, mut up, charge, twice } = arrival;
        if !self.waits_for(round) {
            self.straggler_is_back((round, seat), effects);
            let arrival = Arrival { round, seat, up, charge, twice };
            return match self.underway.remove(&(round, seat)) {
                Some(sent) => self.stale(Stale { sent, arrival }, effects),
                None => {
                    let charge = arrival.charge.map(|charge| self.missed(charge));
                    effects.extend(charge.map(|charge| Effect::Record(charge, None)));
                    Ok(())
                }
            };
        }
        effects.extend(charge.map(|charge| Effect::Record(charge, None)));
        let Some(round) = &mut self.round else { return Ok(()) };
        match up.fault.take() {
            Some(why) => {
                round.skip(seat);
                let (client, round) = (round.client(seat), round.context.round);
                self.reject(Refusal { round, seat, client, why }, effects)
            }
            None => {
                let compares = self.world.rules.compares(&round.context);
                effects.extend(round.fold(seat, up, compares, &self.desk));
                Ok(())
            }
        }
    }

    pub(super) fn untrained(
        &mut self,
        (round, seat): (Round, SeatId),
        charge: Option<Event>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        if self.waits_for(round) {
            let what = format!("{round} waits for an update that was taken for certainly late");
            return Err(FederationError::Impossible(what));
        }
        self.unheard((round, seat), charge, effects);
        Ok(())
    }

    /// Something arrives for which nobody waits any more.
    pub(super) fn unheard(
        &mut self,
        seat: (Round, SeatId),
        charge: Option<Event>,
        effects: &mut Vec<Effect>,
    ) {
        effects.extend(charge.map(|charge| Effect::Record(self.missed(charge), None)));
        self.straggler_is_back(seat, effects);
    }

    /// Records an upload that must not be used, and applies the scenario's rule.
    pub(super) fn reject(
        &self,
        refusal: Refusal,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let Some(open) = &self.round else { return Ok(()) };
        let (task, Refusal { round, seat, client, why }) = (open.context.period.task, refusal);
        let event = Event::UpdateRejected { round, task, seat, client, why: why.clone() };
        effects.push(Effect::Record(event, None));
        match self.world.rules.on_bad_update {
            OnBadUpdate::Drop => Ok(()),
            OnBadUpdate::Abort => Err(FederationError::BadUpdate { client, round, seat, why }),
        }
    }

    pub(super) fn lost(
        &mut self,
        round: Round,
        seat: SeatId,
        charge: Option<Event>,
        effects: &mut Vec<Effect>,
    ) {
        effects.extend(charge.map(|charge| Effect::Record(charge, None)));
        if !self.waits_for(round) {
            self.underway.remove(&(round, seat));
            return self.straggler_is_back((round, seat), effects);
        }
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

    /// Whether this round is open and not about to close.
    pub(super) fn waits_for(&self, round: Round) -> bool {
        self.round.as_ref().is_some_and(|open| open.context.round == round && !open.closed)
    }

    /// A seat of a closed round is out no more.
    pub(super) fn straggler_is_back(&mut self, seat: (Round, SeatId), effects: &mut Vec<Effect>) {
        self.stragglers.remove(&seat);
        if self.over && self.stragglers.is_empty() {
            effects.push(Effect::End(Ok(())));
        }
    }

    pub(super) fn close_when_complete(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        let underway = self.underway.len();
        let complete = |round: &&mut OpenRound| !round.closed && round.is_complete(underway);
        let Some(round) = self.round.as_mut().filter(complete) else { return };
        let out = round.close();
        let number = round.context.round;
        let down = |seat: &SeatId| ((number, *seat), round.sent_to(*seat).1);
        self.stragglers.extend(out.iter().map(down));
        if matches!(self.world.rules.closing.late, Late::Fold(_)) {
            let sent = out.into_iter().map(|seat| ((number, seat), round.sent_to(seat)));
            self.underway.extend(sent.filter(|(_, (seat, _))| seat.works()));
        }
        let Some(folded) = round.folded.take() else { return };
        let now = match &self.world.rules.privacy.secure {
            Some(rules) => round.unmask(&self.world, rules, now, effects),
            None => now,
        };
        self.doing = "waits for uploads to be merged";
        let folded = self.desk.folded(number, folded);
        effects.extend(tell_result(now, folded, ToServer::Folded));
    }
}

/// The charge of a frame that nobody waits for any more.
pub(super) fn late(charge: Event) -> Event {
    charge.with_outcome(FrameOutcome::Late)
}
