//! The opening of a round: who is asked, what the policy sends to whom.

use std::sync::Arc;

use super::machine::{ServerMachine, ToServer, tell_result};
use super::round::OpenRound;
use crate::federation::arrivals::Moment;
use crate::federation::availability::Cohort;
use crate::federation::compute::RoundOpening;
use crate::federation::effect::{Effect, Message};
use crate::federation::error::FederationError;
use crate::federation::event::Event;
use crate::federation::queue::{ActorId, Class};
use crate::policy::RoundContext;
use crate::quantity::{Round, VirtualTime};

impl ServerMachine {
    pub(super) fn open_round(
        &mut self,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let phase = &self.phases[self.phase];
        let period = self.world.period(self.task);
        let round = self.next_round;
        let met = (&self.participants, &self.busy());
        let who = self.world.cohort(phase.cohort, &period.view, (round, now), met)?;
        let cohort = match who {
            Cohort::Now(cohort) => cohort,
            Cohort::Later(until) => {
                let event = Event::RoundWaits { round, task: period.task, until: until.0 };
                effects.push(Effect::Record(event, None));
                self.doing = "waits for clients that can be reached";
                let (class, to) = (Class::Timer, ActorId::Server);
                let message = Message::Server(ToServer::Reopen);
                effects.push(Effect::Tell { at: until, class, to, message });
                return Ok(());
            }
            Cohort::Never => {
                return Err(FederationError::Impossible(format!(
                    "after {now} no client that could be asked in {round} can ever be reached; \
                     let them stay longer, or run fewer rounds"
                )));
            }
        };
        let before: u32 = self.phases[..self.phase].iter().map(|phase| phase.rounds).sum();
        let moment = Moment {
            began: &self.began,
            now,
            round: before + self.round_in_phase,
            rounds: self.phases.iter().map(|phase| phase.rounds).sum(),
        };
        let period = self.world.period_of_round(self.task, &cohort, &moment);
        let context = Arc::new(RoundContext {
            round,
            period,
            phase: self.phase,
            phase_name: phase.name,
            round_in_phase: self.round_in_phase,
            rounds_in_phase: phase.rounds,
            run_seed: self.world.rules.seed,
        });
        self.context = Some(Arc::clone(&context));
        self.next_round = Round(round.0 + 1);
        self.doing = "waits for its policy to open a round";
        let opening = self.desk.open_round(&self.world, &context, cohort);
        effects.extend(tell_result(now, opening, ToServer::Opened));
        Ok(())
    }

    pub(super) fn send_round(
        &mut self,
        now: VirtualTime,
        opening: RoundOpening,
        effects: &mut Vec<Effect>,
    ) {
        let Some(context) = self.context.take() else { return };
        let event = Event::RoundOpened {
            round: context.round,
            task: context.period.task,
            phase: self.phase as u32,
            cohort: opening.cohort.clone(),
            seats: opening.seats.len() as u32,
            behind: context.period.behind().collect(),
        };
        effects.push(Effect::Record(event, None));
        let clients = opening.seats.iter().map(|seat| seat.client);
        let drawn = self.met.meet(&self.world, clients);
        effects.extend(drawn.into_iter().map(|event| Effect::Record(event, None)));
        let working = opening.seats.iter().filter(|seat| seat.works()).count();
        let closing = self.world.rules.closing_of(&self.phases[self.phase], working);
        effects.extend(self.loss_in(context.round, now));
        let round = OpenRound::new(&self.world, context, opening, closing, now);
        match &self.world.rules.privacy.secure {
            Some(rules) => round.introduce(&self.world, rules, now, effects),
            None => round.broadcast(&self.world, &mut self.caches, now, effects),
        }
        if let Some(at) = round.deadline(now) {
            let message = Message::Server(ToServer::Deadline(round.context.round));
            let (class, to) = (Class::Deadline, ActorId::Server);
            effects.push(Effect::Tell { at, class, to, message });
        }
        self.round = Some(round);
        self.doing = "waits for seats";
    }
}
