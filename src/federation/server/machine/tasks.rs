//! Tasks: each begins, goes through its phases, ends, and is tested.

use super::{ServerMachine, ToServer, deliver_result};
use crate::federation::compute::{BeginRequest, EndRequest, PolicyStepResult};
use crate::federation::effect::Effect;
use crate::federation::error::FederationError;
use crate::federation::event::{EvaluationPoint, Event, Numbers};
use crate::federation::metric_value::Digest;
use crate::federation::queue::EventClass;
use crate::federation::rules::Curve;
use crate::federation::snapshot::SnapshotPlace;
use crate::learning::Tally;
use crate::quantity::VirtualTime;

impl ServerMachine {
    /// Begins the next task, or ends the run.
    pub(super) fn begin_task(
        &mut self,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        if self.is_over() {
            self.doing = "waits for stragglers";
            self.end_when_all_are_back(effects);
            return Ok(());
        }
        let task = self.task().task;
        let due = self.simulation.arrivals.due(task);
        if now < due {
            effects.push(Effect::Record(Event::TaskDelayed { task, until: due.0 }, None));
            self.doing = "waits for a task to reach a client";
            effects.push(Effect::deliver_to_server(due, EventClass::Timer, ToServer::TaskDue));
            return Ok(());
        }
        let client_tasks = self.simulation.task_sequence.client_tasks.as_ref();
        let started = Event::TaskStarted {
            task,
            classes: self.simulation.task_sequence.classes_of(self.task()),
            switching_clients: client_tasks
                .map_or_else(Vec::new, |client_tasks| client_tasks.movers(task).to_vec()),
        };
        effects.push(Effect::Record(started, None));
        let stage = self.simulation.stage(self.schedule.task());
        let phases = self.simulation.method.phases(&stage, self.simulation.rules.rounds);
        self.schedule.begin_task(now, phases);
        self.book.begin_task();
        self.caches.begin_task();
        self.doing = "waits for its policy to begin a task";
        effects.extend(deliver_result(
            now,
            self.desk.step(BeginRequest { stage }),
            ToServer::Started,
        ));
        Ok(())
    }

    /// Opens the next round of the current phase, or of the next one that has any.
    pub(super) fn begin_phase(
        &mut self,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        if !self.schedule.seek_phase() {
            self.end_phases(now, effects);
            return Ok(());
        }
        let phase = self.schedule.phase();
        let event = Event::PhaseStarted {
            task: self.task().task,
            phase: self.schedule.phase_number(),
            name: phase.name.to_string(),
            rounds: phase.rounds,
        };
        effects.push(Effect::Record(event, None));
        self.open_round(now, effects)
    }

    /// Notifies the policy that all phases of the task are over.
    fn end_phases(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        let stage = self.simulation.stage(self.schedule.task());
        let test = self.simulation.rules.curve != Curve::Never;
        self.doing = "waits for its policy to end a task";
        let ended = self.desk.step(EndRequest { stage, test });
        effects.extend(deliver_result(now, ended, ToServer::StageEnded));
    }

    /// Tests the model after the policy has ended the task, unless the last test was of an equal model.
    pub(super) fn phases_ended(
        &mut self,
        now: VirtualTime,
        state: PolicyStepResult,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        self.desk.keep(state.digest, state.saved);
        if self.simulation.rules.curve == Curve::Never {
            return self.end_task(now, effects);
        }
        // A tally that was supplied has no answers.
        let needs_answers = self.keeps_answers();
        let counted = |tally: &Tally| tally.answers.is_some() || !needs_answers;
        let seen = self.task().seen();
        match self.desk.take_tested(seen).filter(counted) {
            Some(tally) => self.tested(now, EvaluationPoint::Task, tally, effects),
            None => {
                self.test(now, EvaluationPoint::Task, state.predictor, effects);
                Ok(())
            }
        }
    }

    /// Returns true if tests keep the answer to every sample.
    fn keeps_answers(&self) -> bool {
        self.simulation.rules.answers
            && self.simulation.task_sequence.client_tasks.is_none()
            && self.desk.computes()
    }

    /// Ends a task that is tested, and begins the next.
    pub(super) fn end_task(
        &mut self,
        now: VirtualTime,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        let task = self.task().task;
        let event = Event::TaskEnded { task };
        let numbers = Numbers { digest: Some(Digest(self.desk.digest())), ..Numbers::default() };
        effects.push(Effect::Record(event, Some(numbers)));
        self.schedule.end_task();
        self.between_rounds(SnapshotPlace::Task(task), effects)?;
        self.begin_task(now, effects)
    }

    fn is_over(&self) -> bool {
        self.schedule.task() >= self.simulation.task_sequence.tasks.len()
    }

    /// Ends the run if its last task is over and no participant is out.
    pub(super) fn end_when_all_are_back(&self, effects: &mut Vec<Effect>) {
        if self.is_over() && !self.book.has_stragglers() {
            effects.push(Effect::End(Ok(())));
        }
    }
}
