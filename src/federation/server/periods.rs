//! Periods: a task arrives, its phases follow each other, it ends and is tested.

use super::machine::{ServerMachine, ToServer, tell_result};
use crate::federation::compute::ServerState;
use crate::federation::effect::{Effect, Message};
use crate::federation::error::FederationError;
use crate::federation::evaluation;
use crate::federation::event::{EvaluationPoint, Event, Numbers};
use crate::federation::figure::Digest;
use crate::federation::queue::{ActorId, Class};
use crate::federation::rules::Curve;
use crate::federation::snapshot::SnapshotPlace;
use crate::learning::Tally;
use crate::quantity::VirtualTime;

impl ServerMachine {
    /// A task arrives, or the run is over.
    pub(super) fn begin_period(
        &mut self,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let Some(view) = self.world.curriculum.tasks.get(self.task) else {
            self.over = true;
            self.doing = "waits for stragglers";
            if self.stragglers.is_empty() {
                effects.push(Effect::End(Ok(())));
            }
            return Ok(());
        };
        let due = self.world.arrivals.due(view.task);
        if now < due {
            let event = Event::TaskWaits { task: view.task, until: due.0 };
            effects.push(Effect::Record(event, None));
            self.doing = "waits for a task to reach a client";
            let (class, to) = (Class::Timer, ActorId::Server);
            let message = Message::Server(ToServer::TaskDue);
            effects.push(Effect::Tell { at: due, class, to, message });
            return Ok(());
        }
        self.began.push(now);
        let slots = self.world.curriculum.slots.as_ref();
        let started = Event::TaskStarted {
            task: view.task,
            classes: self.world.curriculum.classes_of(view),
            movers: slots.map_or_else(Vec::new, |slots| slots.movers(view.task).to_vec()),
        };
        effects.push(Effect::Record(started, None));
        let period = self.world.period(self.task);
        self.phases = self.world.method.phases(&period, self.world.rules.rounds);
        (self.phase, self.round_in_phase) = (0, 0);
        self.participants.clear();
        self.caches.begin_task();
        self.doing = "waits for its policy to begin a task";
        effects.extend(tell_result(now, self.desk.begin_task(period), ToServer::Begun));
        Ok(())
    }

    /// Opens the next round of the current phase, or of the next one that has any.
    pub(super) fn begin_phase(
        &mut self,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        while let Some(phase) = self.phases.get(self.phase) {
            if phase.rounds > 0 {
                let event = Event::PhaseStarted {
                    task: self.world.curriculum.tasks[self.task].task,
                    phase: self.phase as u32,
                    name: phase.name.to_string(),
                    rounds: phase.rounds,
                };
                effects.push(Effect::Record(event, None));
                return self.open_round(now, effects);
            }
            self.phase += 1;
        }
        self.end_period(now, effects);
        Ok(())
    }

    pub(super) fn end_period(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        let period = self.world.period(self.task);
        let test = self.world.rules.curve != Curve::Never;
        self.doing = "waits for its policy to end a task";
        effects.extend(tell_result(now, self.desk.end_task(period, test), ToServer::PeriodEnded));
    }

    pub(super) fn period_ended(
        &mut self,
        now: VirtualTime,
        state: ServerState,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        self.desk.keep(state.digest, state.saved);
        if self.world.rules.curve == Curve::Never {
            return self.end_task(now, effects);
        }
        // A tally that was supplied has no counts of confusion.
        let needs_confusion = self.counts_confusion();
        let counted = |tally: &Tally| tally.confused.is_some() || !needs_confusion;
        match self.desk.take_tested(self.seen()).filter(counted) {
            Some(tally) => self.tested(now, EvaluationPoint::Task, tally, effects),
            None => {
                self.test(now, EvaluationPoint::Task, state.predictor, effects);
                Ok(())
            }
        }
    }

    /// Whether tests that are computed count what is taken for what.
    fn counts_confusion(&self) -> bool {
        self.world.rules.confusion && self.world.curriculum.slots.is_none() && self.desk.computes()
    }

    pub(super) fn tested(
        &mut self,
        now: VirtualTime,
        point: EvaluationPoint,
        tally: Tally,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let task = self.world.curriculum.tasks[self.task].task;
        let round = self.last_round();
        let numbers = evaluation::numbers(&self.world, &tally, point);
        effects.push(Effect::Record(Event::Evaluated { round, task, point }, Some(numbers)));
        if let (Some(confused), EvaluationPoint::Task) = (&tally.confused, point) {
            effects.push(Effect::Confused(task, confused.clone()));
        }
        self.desk.note_tested(self.seen(), tally);
        match point {
            EvaluationPoint::Round => self.after_round(round, now, effects),
            EvaluationPoint::Task => self.end_task(now, effects),
        }
    }

    fn end_task(
        &mut self,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let task = self.world.curriculum.tasks[self.task].task;
        let event = Event::TaskEnded { task };
        let numbers = Numbers { digest: Some(Digest(self.desk.digest())), ..Numbers::default() };
        effects.push(Effect::Record(event, Some(numbers)));
        self.task += 1;
        self.between_rounds(SnapshotPlace::Task(task), effects)?;
        self.begin_period(now, effects)
    }
}
