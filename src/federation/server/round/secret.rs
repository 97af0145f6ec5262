//! Secure aggregation of a round: the legs of [`privacy`](crate::federation::privacy) around the participants' own
//! frames.

use std::sync::Arc;

use super::{OpenRound, ParticipantStatus, Sent};
use crate::federation::assets::AssetCaches;
use crate::federation::effect::Effect;
use crate::federation::event::{Event, FrameOutcome};
use crate::federation::privacy::{
    KeyExchange, Masking, Masks, ProtocolContext, ProtocolFrame, SecureAggregation, exchange_keys,
    unmask,
};
use crate::federation::queue::EventClass;
use crate::federation::server::messages::ToServer;
use crate::federation::simulation_context::SimulationContext;
use crate::quantity::{ParticipantId, VirtualTime};

/// Outcome of the masked sum of a round.
pub(super) struct MaskedOutcome {
    members: usize,
    arrived: usize,
    answered: usize,
    needed: usize,
    opened: bool,
}

impl OpenRound {
    /// Runs the key exchange, before any download is sent.
    pub fn exchange_keys(
        &self,
        simulation: &SimulationContext,
        rules: &SecureAggregation,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) {
        let mut introduction = exchange_keys(&self.room(simulation, rules), now);
        let frames = std::mem::take(&mut introduction.frames);
        effects.extend(frames.iter().map(|frame| self.arrives(frame, Missed::EndsParticipation)));
        let (at, round) = (introduction.settled, self.context.round);
        let message = ToServer::Introduced(round, introduction);
        effects.push(Effect::deliver_to_server(at, EventClass::Delivery, message));
    }

    /// Sends the downloads to members that are ready for them.
    pub fn invite(
        &mut self,
        simulation: &SimulationContext,
        rules: &SecureAggregation,
        KeyExchange { members, ready, .. }: KeyExchange,
        caches: &mut AssetCaches,
        effects: &mut Vec<Effect>,
    ) {
        let Some(upload) = self.first.as_ref().map(|first| first.upload.body().clone()) else {
            return;
        };
        let masks = Masks::new(self.context.run_seed, self.context.round);
        let participants = self.participants.len();
        self.masking =
            Some(Arc::new(Masking { rules: *rules, masks, members, participants, up: upload }));
        caches.begin_round();
        let mut sent = Sent::default();
        let mut reached = Vec::with_capacity(ready.len());
        for id in ready {
            let (participant, download) =
                (&self.participants[id.index()], &self.downloads[id.index()]);
            if self.send(simulation, (caches, &mut sent), (participant, download), effects) {
                reached.push(participant);
            }
        }
        self.begin_training(simulation, &reached, effects);
        self.frames = sent.frames;
    }

    /// Requests the shares of members whose upload arrived; returns the time of the result.
    pub fn unmask(
        &mut self,
        simulation: &SimulationContext,
        rules: &SecureAggregation,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> VirtualTime {
        let members = self.masking.as_ref().map_or(0, |masking| masking.members.len());
        let arrived: Vec<ParticipantId> = self
            .participants_at(ParticipantStatus::Aggregated)
            .map(|participant| participant.id)
            .collect();
        let unmasking = unmask(&self.room(simulation, rules), members, &arrived, now);
        effects.extend(
            unmasking.frames.iter().map(|frame| self.arrives(frame, Missed::IsOnlyCharged)),
        );
        self.outcome = Some(MaskedOutcome {
            members,
            arrived: arrived.len(),
            answered: unmasking.answered,
            needed: rules.needed(self.participants.len()),
            opened: unmasking.opened,
        });
        unmasking.settled
    }

    /// Records the outcome of the masked sum, and returns true if the sum was opened.
    ///
    /// If it was not, none of its uploads counts. `None` without secure aggregation.
    pub fn report_sum(&mut self, effects: &mut Vec<Effect>) -> Option<bool> {
        let MaskedOutcome { members, arrived, answered, needed, opened } = self.outcome.take()?;
        let event = Event::SecureSumOpened {
            round: self.context.round,
            task: self.context.stage.task,
            members: members as u32,
            arrived: arrived as u32,
            answered: answered as u32,
            needed: needed as u32,
            opened,
        };
        effects.push(Effect::Record(event, None));
        if !opened {
            self.status.fill(ParticipantStatus::Missing);
            self.models.clear();
        }
        Some(opened)
    }

    fn room<'a>(
        &'a self,
        simulation: &'a SimulationContext,
        rules: &'a SecureAggregation,
    ) -> ProtocolContext<'a> {
        let round = self.context.round;
        ProtocolContext { links: &simulation.links, round, participants: &self.participants, rules }
    }

    /// Returns the effect of a protocol frame that arrives or is lost.
    fn arrives(&self, frame: &ProtocolFrame, missed: Missed) -> Effect {
        let ProtocolFrame { at, latency, participant, step, bytes, fate, copy } = frame;
        let charge = Event::FrameCharged {
            round: self.context.round,
            task: self.context.stage.task,
            phase: self.context.phase as u32,
            participant: *participant,
            client: self.client(*participant),
            direction: step.direction(),
            outcome: if fate.arrives { FrameOutcome::Delivered } else { FrameOutcome::Lost },
            bytes: Arc::clone(bytes),
            sent: fate.sent,
            latency: latency.0,
            kind: self.participants[participant.index()].kind,
            copy: *copy,
            asset: None,
        };
        let round = self.context.round;
        let message = match (missed, fate.arrives) {
            (Missed::EndsParticipation, true) => ToServer::KeysArrived { round, charge },
            (Missed::EndsParticipation, false) => {
                ToServer::Lost { round, participant: *participant, charge: Some(charge) }
            }
            (Missed::IsOnlyCharged, _) => ToServer::Charged(charge),
        };
        Effect::deliver_to_server(*at, EventClass::Delivery, message)
    }
}

/// Consequence of the loss of a frame.
#[derive(Clone, Copy, PartialEq)]
enum Missed {
    /// The participant cannot go on.
    EndsParticipation,
    /// The upload is here already.
    IsOnlyCharged,
}
