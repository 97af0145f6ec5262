//! Restart of a server that is lost while a round is open.
//!
//! The server loses its state of the round: uploads that had arrived, the participants, the uploads still expected of
//! earlier rounds. A new policy takes its place and loads the state that was saved when the round before had closed.
//! After the downtime the round closes without an update, and the next one opens. Frames that arrive during the
//! downtime are lost; those that arrive afterwards are late.

use super::{ServerMachine, deliver_result};
use crate::federation::aggregation::AggregationResult;
use crate::federation::effect::Effect;
use crate::federation::event::Event;
use crate::federation::faults::Restart;
use crate::federation::queue::EventClass;
use crate::federation::server::messages::{ServerLoss, ToServer};
use crate::federation::server::round_book::LostUploads;
use crate::quantity::{Round, VirtualTime};

impl ServerMachine {
    /// Returns the effect that loses the server during this round, if a fault strikes it.
    pub(super) fn loss_in(&self, round: Round, now: VirtualTime) -> Option<Effect> {
        let rules = &self.simulation.rules;
        let Restart { after, downtime } = rules.faults.restart(rules.seed, round)?;
        let loss = ServerLoss { round, downtime, caches: self.caches.clone() };
        // It has the class of an arriving frame, so that even a round in which nothing takes time is still open.
        let message = ToServer::Lose(Box::new(loss));
        Some(Effect::deliver_to_server(now + after, EventClass::Delivery, message))
    }

    /// Loses the server if the round is still open, and has its policy created again.
    pub(super) fn lose(&mut self, now: VirtualTime, loss: ServerLoss, effects: &mut Vec<Effect>) {
        let ServerLoss { round, downtime, caches } = loss;
        if !self.book.waits_for(round) {
            return;
        }
        let Some(LostUploads { participants: lost, stale }) = self.book.lose() else { return };
        let (task, back) = (self.task().task, now + downtime);
        let event = Event::ServerRestarted { round, task, lost, stale, until: back.0 };
        effects.push(Effect::Record(event, None));
        self.caches = caches;
        self.down = true;
        self.doing = "is down";
        let started = self.schedule.is_first_of_task();
        let started = started.then(|| self.simulation.stage(self.schedule.task()));
        let restart = self.desk.restart(&self.simulation, round, started);
        effects.extend(deliver_result(back, restart, ToServer::Restarted));
    }

    /// Closes the round without an update after the server is back.
    pub(super) fn restarted(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        self.down = false;
        self.book.keep_aggregate(AggregationResult::default());
        self.close(now, effects);
    }
}
