//! Uploads and losses of the participants of a round, until the round can close, and of closed rounds.

use super::{ServerMachine, ToServer, deliver_result};
use crate::federation::aggregation::RejectedUpload;
use crate::federation::closing::LatePolicy;
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::event::{Direction, Event, FrameOutcome};
use crate::federation::rules::OnBadUpdate;
use crate::federation::server::messages::Arrival;
use crate::federation::server::round_book::{RoundParticipant, StaleUpload};
use crate::policy::UploadMeta;
use crate::quantity::{ParticipantId, Round, VirtualTime};

impl ServerMachine {
    /// Takes an upload, which may arrive twice.
    pub(super) fn arrived(
        &mut self,
        arrival: Arrival,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        // The second copy is only charged, after the first one has been processed.
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
        let key = (arrival.round, arrival.participant);
        if !self.book.waits_for(arrival.round) {
            self.straggler_is_back(key, effects);
            return match self.book.take_underway(key) {
                Some(sent) => self.aggregate_stale(StaleUpload { sent, arrival }, effects),
                None => {
                    let charge = arrival.charge.map(|charge| self.missed(charge));
                    effects.extend(charge.map(|charge| Effect::Record(charge, None)));
                    Ok(())
                }
            };
        }
        let Arrival { participant, up: mut upload, charge, .. } = arrival;
        effects.extend(charge.map(|charge| Effect::Record(charge, None)));
        let Some(round) = self.book.current_mut() else { return Ok(()) };
        match upload.fault.take() {
            Some(why) => {
                round.skip(participant);
                let (client, round) = (round.client(participant), round.context.round);
                self.reject(RejectedUpload { round, participant, client, why }, effects)
            }
            None => {
                let compares = self.simulation.rules.compares(&round.context);
                effects.extend(round.add_upload(participant, upload, compares, &self.desk));
                Ok(())
            }
        }
    }

    /// Takes the upload of a participant that was not computed, because it certainly is late.
    pub(super) fn untrained(
        &mut self,
        (round, participant): RoundParticipant,
        charge: Option<Event>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        if self.book.waits_for(round) {
            let what = format!("{round} waits for an update that was taken for certainly late");
            return Err(FederationError::Impossible(what));
        }
        self.take_late_frame((round, participant), charge, effects);
        Ok(())
    }

    /// Takes a frame that the server does not wait for any more.
    pub(super) fn take_late_frame(
        &mut self,
        participant: RoundParticipant,
        charge: Option<Event>,
        effects: &mut Vec<Effect>,
    ) {
        effects.extend(charge.map(|charge| Effect::Record(self.missed(charge), None)));
        self.straggler_is_back(participant, effects);
    }

    /// Records an upload that cannot be aggregated, and applies the scenario's rule for bad updates.
    pub(super) fn reject(
        &self,
        refusal: RejectedUpload,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let Some(open) = self.book.current() else { return Ok(()) };
        let (task, RejectedUpload { round, participant, client, why }) =
            (open.context.stage.task, refusal);
        let event = Event::UpdateRejected { round, task, participant, client, reason: why.clone() };
        effects.push(Effect::Record(event, None));
        match self.simulation.rules.on_bad_update {
            OnBadUpdate::Drop => Ok(()),
            OnBadUpdate::Abort => {
                Err(FederationError::BadUpdate { client, round, participant, why })
            }
        }
    }

    /// Takes the loss of a frame from or to a participant.
    pub(super) fn lost(
        &mut self,
        round: Round,
        participant: ParticipantId,
        charge: Option<Event>,
        effects: &mut Vec<Effect>,
    ) {
        effects.extend(charge.map(|charge| Effect::Record(charge, None)));
        if !self.book.waits_for(round) {
            self.book.take_underway((round, participant));
            return self.straggler_is_back((round, participant), effects);
        }
        if let Some(round) = self.book.current_mut() {
            effects.push(round.fail(participant, "lost", ""));
        }
    }

    /// Notes that a participant of a closed round is back, and ends the run if it was the last.
    pub(super) fn straggler_is_back(
        &mut self,
        participant: RoundParticipant,
        effects: &mut Vec<Effect>,
    ) {
        self.book.straggler_is_back(participant);
        self.end_when_all_are_back(effects);
    }

    /// Closes the open round if its rule is met.
    pub(super) fn close_when_complete(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        let late_counts = matches!(self.simulation.rules.closing.late, LatePolicy::Aggregate(_));
        let Some(round) = self.book.close_complete(late_counts) else { return };
        let Some(aggregate) = round.take_aggregate() else { return };
        let at = match &self.simulation.rules.privacy.secure {
            Some(rules) => round.unmask(&self.simulation, rules, now, effects),
            None => now,
        };
        self.doing = "waits for uploads to be merged";
        let aggregate = self.desk.aggregate(round.context.round, aggregate);
        effects.extend(deliver_result(at, aggregate, ToServer::Aggregated));
    }

    /// Aggregates an upload of a closed round into the open one, or holds it for the next.
    fn aggregate_stale(
        &mut self,
        upload: StaleUpload,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let open = self.book.current_mut().filter(|round| !round.is_closed());
        let (Some(round), LatePolicy::Aggregate(rule)) = (open, self.simulation.rules.closing.late)
        else {
            self.book.hold(upload);
            return Ok(());
        };
        let StaleUpload { sent: (participant, download), arrival } = upload;
        let (base, into, task) = (arrival.round, round.context.round, round.context.stage.task);
        let staleness = into.0 - base.0;
        let Some(discount) = rule.weight(staleness) else {
            effects.extend(arrival.charge.map(|charge| Effect::Record(late(charge), None)));
            return Ok(());
        };
        effects.extend(arrival.charge.map(|charge| Effect::Record(charge, None)));
        let (id, client, mut upload) = (participant.id, participant.client, arrival.up);
        if let Some(why) = upload.fault.take() {
            return self
                .reject(RejectedUpload { round: base, participant: id, client, why }, effects);
        }
        let event = Event::UpdateStale { round: base, task, participant: id, client, into };
        effects.push(Effect::Record(event, None));
        let meta = UploadMeta { participant, base, staleness, discount };
        effects.extend(round.add_stale_upload(&download, upload, meta, &self.desk));
        Ok(())
    }

    /// Aggregates the uploads that were held while no round was open.
    pub(super) fn aggregate_held(
        &mut self,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        self.book
            .take_held()
            .into_iter()
            .try_for_each(|upload| self.aggregate_stale(upload, effects))
    }

    /// Ends a phase: uploads still in transit are late.
    pub(super) fn give_up_stale(&mut self, effects: &mut Vec<Effect>) {
        let charges = self.book.end_phase().into_iter();
        effects.extend(charges.map(|charge| Effect::Record(late(charge), None)));
    }

    /// Returns the charge of a frame of the key exchange.
    ///
    /// It is late if it reaches the server after the round has closed.
    pub(super) fn keys_arrived(&self, round: Round, charge: Event) -> Event {
        let is_up = matches!(charge, Event::FrameCharged { direction: Direction::Up, .. });
        if is_up && !self.book.waits_for(round) { self.missed(charge) } else { charge }
    }

    /// Returns the charge of a frame that the server does not wait for any more.
    fn missed(&self, charge: Event) -> Event {
        charge.with_outcome(if self.down { FrameOutcome::Lost } else { FrameOutcome::Late })
    }
}

fn late(charge: Event) -> Event {
    charge.with_outcome(FrameOutcome::Late)
}
