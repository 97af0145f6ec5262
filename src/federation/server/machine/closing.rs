//! Closing of a round: the policy takes the aggregate, the model is tested, the next round follows.

use std::sync::Arc;

use super::{ServerMachine, ToServer, deliver_result};
use crate::federation::aggregation::AggregationResult;
use crate::federation::bias::BiasMeasurement;
use crate::federation::compute::{
    ClosingRequest, ComparisonRequest, PolicyStepResult, RoundAggregate,
};
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::evaluation;
use crate::federation::event::{EvaluationPoint, Event, Numbers};
use crate::federation::metric_value::Digest;
use crate::federation::rules::Curve;
use crate::federation::snapshot::SnapshotPlace;
use crate::learning::Tally;
use crate::policy::{Predictor, RoundWork};
use crate::quantity::{Round, VirtualTime};

impl ServerMachine {
    /// Takes the aggregate of the round; client models are compared first if the rules ask for it.
    pub(super) fn aggregate(
        &mut self,
        now: VirtualTime,
        aggregate: Result<AggregationResult, String>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        const STEP: &str = "merge uploads";
        let panicked = |message| FederationError::Panicked { step: STEP, message };
        let mut aggregate = aggregate.map_err(panicked)?;
        if let Some(message) = aggregate.broken.take() {
            return Err(panicked(message));
        }
        for refusal in std::mem::take(&mut aggregate.refused) {
            self.book.refuse(&refusal);
            self.reject(refusal, effects)?;
        }
        let opened = self.book.current_mut().and_then(|round| round.report_sum(effects));
        if opened == Some(false) {
            aggregate.part = None;
        }
        self.book.keep_aggregate(aggregate);
        let rules = &self.simulation.rules;
        match self.book.current().is_some_and(|round| rules.compares(&round.context)) {
            true => self.compare(now, effects),
            false => self.close(now, effects),
        }
        Ok(())
    }

    /// Measures client models before aggregation.
    fn compare(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        let Some(round) = self.book.current_mut() else { return };
        let (simulation, context) = (Arc::clone(&self.simulation), Arc::clone(&round.context));
        let models = round.take_models();
        self.doing = "waits for client models to be compared";
        let comparison = self.desk.compare(ComparisonRequest { simulation, context, models });
        effects.extend(deliver_result(now, comparison, ToServer::Compared));
    }

    /// Records the distances between client models.
    pub(super) fn compared(&mut self, comparison: BiasMeasurement, effects: &mut Vec<Effect>) {
        let Some(round) = self.book.current() else { return };
        let BiasMeasurement { clients, metrics, responses } = comparison;
        let (round, task) = (round.context.round, round.context.stage.task);
        let event = Event::FederatedBiasMeasured { round, task, clients };
        let numbers = Numbers { metrics, responses, ..Numbers::default() };
        effects.push(Effect::Record(event, Some(numbers)));
    }

    /// Hands the round's aggregate to the policy.
    pub(super) fn close(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        let aggregate = self.book.take_aggregate();
        let (Some(round), Some(aggregate)) = (self.book.current(), aggregate) else { return };
        let context = Arc::clone(&round.context);
        let masking = round.agreement();
        // Without uploads the policy has nothing to compute.
        let updates = round.updates();
        let work = match updates as usize {
            0 => 0.0,
            updates => self.simulation.method.cost(&context, &RoundWork::Server { updates }),
        };
        let done = now + self.simulation.clock.server(work);
        let rules = &self.simulation.rules;
        let aggregate = RoundAggregate { part: aggregate.part, masking, rule: rules.aggregation };
        self.doing = "waits for its policy to close a round";
        let test = rules.curve == Curve::Round;
        let state = self.desk.step(ClosingRequest { context, aggregate, updates, test });
        effects.extend(deliver_result(done, state, ToServer::Closed));
    }

    /// Tests the model after the policy has closed the round, if the rules ask for it.
    pub(super) fn closed(
        &mut self,
        now: VirtualTime,
        state: PolicyStepResult,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let Some(round) = self.book.take_closed() else { return Ok(()) };
        let (number, missing) = (round.context.round, round.missing());
        let event = Event::RoundClosed {
            round: number,
            task: round.context.stage.task,
            phase: self.schedule.phase_number(),
            aggregated: round.updates(),
            stale: round.stale(),
            missing,
        };
        let (digest, metrics) = (Some(Digest(state.digest)), state.metrics);
        let numbers = Numbers { digest, metrics, ..Numbers::default() };
        effects.push(Effect::Record(event, Some(numbers)));
        self.desk.keep(state.digest, state.saved);
        if self.simulation.rules.curve != Curve::Round {
            return self.after_round(number, now, effects);
        }
        self.test(now, EvaluationPoint::Round, state.predictor, effects);
        Ok(())
    }

    /// Tests the model on all classes seen.
    pub(super) fn test(
        &mut self,
        now: VirtualTime,
        point: EvaluationPoint,
        predictor: Option<Arc<dyn Predictor>>,
        effects: &mut Vec<Effect>,
    ) {
        let after = match point {
            EvaluationPoint::Round => SnapshotPlace::Round(self.schedule.last_round()),
            EvaluationPoint::Task => SnapshotPlace::Task(self.task().task),
        };
        self.doing = "waits for the evaluation";
        let tallies = self.desk.test(&self.simulation, after, self.task().seen(), predictor);
        effects.extend(deliver_result(now, tallies, move |all| ToServer::Tested(point, all)));
    }

    /// Records the result of a test, and goes on with the run.
    pub(super) fn tested(
        &mut self,
        now: VirtualTime,
        point: EvaluationPoint,
        tally: Tally,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let (task, seen) = (self.task().task, self.task().seen());
        let round = self.schedule.last_round();
        let numbers = evaluation::numbers(&self.simulation, &tally, point);
        effects.push(Effect::Record(Event::Evaluated { round, task, point }, Some(numbers)));
        if point == EvaluationPoint::Task {
            let answers = evaluation::answers(&self.simulation, &tally);
            effects.extend(answers.map(|answers| Effect::RecordAnswers(task, answers)));
        }
        self.desk.note_tested(seen, tally);
        match point {
            EvaluationPoint::Round => self.after_round(round, now, effects),
            EvaluationPoint::Task => self.end_task(now, effects),
        }
    }

    /// Opens the next round of the phase, begins the next phase, or ends the task.
    fn after_round(
        &mut self,
        round: Round,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        self.between_rounds(SnapshotPlace::Round(round), effects)?;
        if self.schedule.end_round() {
            return self.open_round(now, effects);
        }
        self.give_up_stale(effects);
        self.begin_phase(now, effects)
    }
}
