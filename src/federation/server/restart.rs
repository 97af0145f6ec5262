//! A server that is lost while a round is open.
//!
//! What it knew of the round goes with it: uploads that had arrived, whom it had asked, the uploads it
//! still expected of earlier rounds. A new policy is made in its place and loads what was saved when the
//! round before had closed. After the downtime the round closes without an update, and the next one
//! opens. What arrives while nobody is there is lost; what arrives afterwards is late.

use super::machine::{ServerMachine, ToServer, tell_result};
use crate::federation::assets::AssetCaches;
use crate::federation::effect::{Effect, Message};
use crate::federation::error::FederationError;
use crate::federation::event::{Event, FrameOutcome};
use crate::federation::faults::Restart;
use crate::federation::fold::Outcome;
use crate::federation::queue::{ActorId, Class};
use crate::quantity::{Round, VirtualTime};

/// A server that is about to be lost.
pub(crate) struct Loss {
    pub round: Round,
    pub downtime: VirtualTime,
    /// What it knew of its receivers' caches before the round.
    pub caches: AssetCaches,
}

impl ServerMachine {
    /// The loss that a fault brings upon the round that is about to be sent.
    pub(super) fn loss_in(&self, round: Round, now: VirtualTime) -> Option<Effect> {
        let rules = &self.world.rules;
        let Restart { after, downtime } = rules.faults.restart(rules.seed, round)?;
        let loss = Loss { round, downtime, caches: self.caches.clone() };
        // As the arrival of a frame: also a round in which nothing takes time is still open then.
        let (class, to) = (Class::Delivery, ActorId::Server);
        let message = Message::Server(ToServer::Lose(Box::new(loss)));
        Some(Effect::Tell { at: now + after, class, to, message })
    }

    pub(super) fn lose(&mut self, now: VirtualTime, loss: Loss, effects: &mut Vec<Effect>) {
        let Loss { round, downtime, caches } = loss;
        if !self.waits_for(round) {
            return;
        }
        let Some(open) = &mut self.round else { return };
        let out = open.close();
        self.stragglers.extend(out.iter().map(|seat| ((round, *seat), open.sent_to(*seat).1)));
        let (lost, stale) = open.forget();
        let (task, back) = (open.context.period.task, now + downtime);
        let event = Event::ServerRestarted { round, task, lost, stale, until: back.0 };
        effects.push(Effect::Record(event, None));
        self.underway.clear();
        self.caches = caches;
        self.down = true;
        self.doing = "is down";
        let begun = self.is_first_of_period().then(|| self.world.period(self.task));
        let restart = self.desk.restart(&self.world, round, begun);
        effects.extend(tell_result(back, restart, ToServer::Restarted));
    }

    /// The server is back.
    pub(super) fn restarted(
        &mut self,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        self.down = false;
        self.folded = Some(Outcome { part: None, refused: Vec::new(), broken: None });
        self.close(now, effects)
    }

    /// Whether no round of the period was closed before the one that is open.
    fn is_first_of_period(&self) -> bool {
        let before = &self.phases[..self.phase];
        self.round_in_phase == 0 && before.iter().all(|phase| phase.rounds == 0)
    }

    /// The charge of a frame that nobody waits for any more.
    pub(super) fn missed(&self, charge: Event) -> Event {
        charge.with_outcome(if self.down { FrameOutcome::Lost } else { FrameOutcome::Late })
    }
}
