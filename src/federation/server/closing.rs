//! Closing a round: what was merged goes into the policy, what follows is decided.

use std::sync::Arc;

use super::machine::{ServerMachine, ToServer, tell_result};
use crate::federation::compute::{RoundAggregate, ServerState};
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::event::{EvaluationPoint, Event, Numbers};
use crate::federation::figure::Digest;
use crate::federation::fold::Outcome;
use crate::federation::rules::Curve;
use crate::federation::snapshot::SnapshotPlace;
use crate::policy::RoundWork;
use crate::quantity::{Round, VirtualTime};

impl ServerMachine {
    pub(super) fn folded(
        &mut self,
        now: VirtualTime,
        folded: Result<Outcome, String>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        const STEP: &str = "merge uploads";
        let panicked = |message| FederationError::Panicked { step: STEP, message };
        let mut folded = folded.map_err(panicked)?;
        if let Some(message) = folded.broken.take() {
            return Err(panicked(message));
        }
        for refusal in std::mem::take(&mut folded.refused) {
            if let Some(round) = &mut self.round {
                round.refuse(&refusal);
            }
            self.unlifted.push((refusal.round, refusal.seat));
            self.reject(refusal, effects)?;
        }
        let opened = self.round.as_mut().and_then(|round| round.report_sum(effects));
        if opened == Some(false) {
            folded.part = None;
        }
        if let Some(round) = &self.round {
            self.participants.extend(round.folded_clients());
        }
        self.folded = Some(folded);
        let compares = self.round.as_ref().is_some_and(|r| self.world.rules.compares(&r.context));
        if compares {
            self.compare(now, effects);
            return Ok(());
        }
        self.close(now, effects)
    }

    pub(super) fn close(
        &mut self,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let (Some(round), Some(folded)) = (&self.round, self.folded.take()) else { return Ok(()) };
        let context = Arc::clone(&round.context);
        let (masking, rule) =
            (round.masking.clone().zip(round.first.clone()), self.world.rules.fold);
        let test = self.world.rules.curve == Curve::Round;
        // Without uploads the policy has nothing to compute.
        let work = match round.folded_clients().count() + round.stale as usize {
            0 => 0.0,
            updates => self.world.method.cost(&context, &RoundWork::Server { updates }),
        };
        let done = now + self.world.clock.server(work);
        let aggregate = RoundAggregate { part: folded.part, masking, rule };
        self.doing = "waits for its policy to close a round";
        let state = self.desk.close_round(context, aggregate, test);
        effects.extend(tell_result(done, state, ToServer::Closed));
        Ok(())
    }

    pub(super) fn closed(
        &mut self,
        now: VirtualTime,
        state: ServerState,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let Some(round) = self.round.take() else { return Ok(()) };
        let (number, missing) = (round.context.round, round.missing());
        let event = Event::RoundClosed {
            round: number,
            task: round.context.period.task,
            phase: self.phase as u32,
            folded: round.folded_clients().count() as u32 + round.stale,
            stale: round.stale,
            missing,
        };
        let (digest, metrics) = (Some(Digest(state.digest)), state.figures);
        let numbers = Numbers { digest, metrics, ..Numbers::default() };
        effects.push(Effect::Record(event, Some(numbers)));
        self.desk.keep(state.digest, state.saved);
        match self.world.rules.curve == Curve::Round {
            true => {
                self.test(now, EvaluationPoint::Round, state.predictor, effects);
                Ok(())
            }
            false => self.after_round(number, now, effects),
        }
    }

    /// The next round of the phase, the next phase, or the end of the period.
    pub(super) fn after_round(
        &mut self,
        round: Round,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        self.between_rounds(SnapshotPlace::Round(round), effects)?;
        self.round_in_phase += 1;
        let limit = self.phases[self.phase].rounds;
        if self.round_in_phase < limit {
            return self.open_round(now, effects);
        }
        self.phase += 1;
        self.round_in_phase = 0;
        self.give_up_stale(effects);
        self.begin_phase(now, effects)
    }
}
