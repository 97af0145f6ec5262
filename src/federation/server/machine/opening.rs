//! Opening of a round: its cohort, and the policy's downloads.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ServerMachine, ToServer, deliver_result};
use crate::federation::availability::Cohort;
use crate::federation::compute::{OpeningRequest, RoundOpening};
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::event::Event;
use crate::federation::privacy::KeyExchange;
use crate::federation::queue::EventClass;
use crate::federation::server::round::OpenRound;
use crate::quantity::{ClientId, Round, VirtualTime};

impl ServerMachine {
    /// Draws the cohort of the next round, and has the policy open it.
    pub(super) fn open_round(
        &mut self,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let round = self.schedule.next_round();
        let (rule, busy) = (self.schedule.phase().cohort, self.busy_clients());
        let met = (self.book.participants(), &busy);
        let cohort = match self.simulation.cohort(rule, self.task(), (round, now), met)? {
            Cohort::Now(cohort) => cohort,
            Cohort::Later(until) => {
                let event = Event::RoundDelayed { round, task: self.task().task, until: until.0 };
                effects.push(Effect::Record(event, None));
                self.doing = "waits for clients that can be reached";
                effects.push(Effect::deliver_to_server(until, EventClass::Timer, ToServer::Reopen));
                return Ok(());
            }
            Cohort::Never => {
                let help = "let clients stay longer, or run fewer rounds";
                return Err(FederationError::NeverAvailable { at: now, round, help });
            }
        };
        let context = Arc::new(self.schedule.open_round(&self.simulation, now, &cohort));
        self.book.announce(Arc::clone(&context));
        self.doing = "waits for its policy to open a round";
        let simulation = Arc::clone(&self.simulation);
        let opening = self.desk.step(OpeningRequest { simulation, context, cohort });
        effects.extend(deliver_result(now, opening, ToServer::Opened));
        Ok(())
    }

    /// Returns the clients that an asynchronous server does not sample because they are still at work.
    fn busy_clients(&self) -> BTreeSet<ClientId> {
        match self.simulation.rules.closing.is_asynchronous() {
            true => self.book.clients_underway(),
            false => BTreeSet::new(),
        }
    }

    /// Sends the downloads of the policy and opens the round.
    pub(super) fn send_round(
        &mut self,
        now: VirtualTime,
        opening: RoundOpening,
        effects: &mut Vec<Effect>,
    ) {
        let Some(context) = self.book.take_announced() else { return };
        let event = Event::RoundOpened {
            round: context.round,
            task: context.stage.task,
            phase: self.schedule.phase_number(),
            cohort: opening.cohort.clone(),
            participants: opening.participants.len() as u32,
            behind: context.stage.behind().collect(),
        };
        effects.push(Effect::Record(event, None));
        let clients = opening.participants.iter().map(|participant| participant.client);
        let drawn = self.met.meet(&self.simulation, clients);
        effects.extend(drawn.into_iter().map(|event| Effect::Record(event, None)));
        effects.extend(self.loss_in(context.round, now));
        let (phase, at) = (self.schedule.phase(), (now, self.desk.computes()));
        let mut round = OpenRound::new(&self.simulation, context, phase, opening, at);
        match &self.simulation.rules.privacy.secure {
            Some(rules) => round.exchange_keys(&self.simulation, rules, now, effects),
            None => round.broadcast(&self.simulation, &mut self.caches, now, effects),
        }
        if let Some(at) = round.deadline(now) {
            let message = ToServer::Deadline(round.context.round);
            effects.push(Effect::deliver_to_server(at, EventClass::Deadline, message));
        }
        self.book.open(round);
        self.doing = "waits for participants";
    }

    /// Sends the downloads after the key exchange of secure aggregation.
    ///
    /// With too few members no download is sent, and all of them fail.
    pub(super) fn introduced(
        &mut self,
        round: Round,
        introduction: KeyExchange,
        effects: &mut Vec<Effect>,
    ) {
        if !self.book.waits_for(round) {
            let alive = introduction.alive().iter();
            return alive
                .for_each(|participant| self.straggler_is_back((round, *participant), effects));
        }
        let rules = &self.simulation.rules.privacy.secure;
        let (Some(round), Some(rules)) = (self.book.current_mut(), rules) else { return };
        if introduction.enough {
            return round.invite(&self.simulation, rules, introduction, &mut self.caches, effects);
        }
        for participant in introduction.members {
            let detail = "too few members for secure aggregation";
            effects.push(round.fail(participant, "excluded", detail));
        }
    }
}
