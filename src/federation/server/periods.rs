//! Periods: a task arrives, its phases follow each other, it ends and is tested.

use super::machine::{ServerMachine, ToServer, here, reply};
use super::steps::{self, Changed};
use crate::federation::effect::{Effect, Message, compute};
use crate::federation::error::FederationError;
use crate::federation::evaluation;
use crate::federation::event::{EvaluationPoint, Event, Numbers};
use crate::federation::figure::Digest;
use crate::federation::queue::{ActorId, Class};
use crate::federation::rules::Curve;
use crate::federation::sink::JobKind;
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
        if self.answers().is_some() {
            effects.push(reply(now, ToServer::Begun(Ok((None, Ok(()))))));
            return Ok(());
        }
        let policy = self.lend();
        let job = move |lab: &_| steps::begin(policy, lab, &period);
        effects.extend(compute(here(now), JobKind::Server, job, |answer| {
            Message::Server(ToServer::Begun(answer))
        }));
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
        if let Some(answers) = self.answers() {
            let changed = steps::answered_end(&**answers, period.task);
            effects.push(reply(now, ToServer::PeriodEnded(Ok((None, changed)))));
            return;
        }
        let policy = self.lend();
        let job = move |lab: &_| steps::end(policy, lab, &period, test);
        effects.extend(compute(here(now), JobKind::Server, job, |answer| {
            Message::Server(ToServer::PeriodEnded(answer))
        }));
    }

    pub(super) fn period_ended(
        &mut self,
        now: VirtualTime,
        changed: Changed,
        effects: &mut Vec<Effect>,
    ) -> Result<(), FederationError> {
        (self.digest, self.saved) = (changed.digest, changed.saved);
        if self.world.rules.curve == Curve::Never {
            return self.end_task(now, effects);
        }
        let seen = self.seen();
        match self.tested.take() {
            // One that was told has no counts of confusion.
            Some((digest, rows, tally))
                if digest == self.digest
                    && rows == seen
                    && (tally.confused.is_some() || !self.counts_confusion()) =>
            {
                self.tested(now, EvaluationPoint::Task, tally, effects)
            }
            _ => self.test(now, EvaluationPoint::Task, changed.predictor, effects),
        }
    }

    /// Whether tests that are computed count what is taken for what.
    fn counts_confusion(&self) -> bool {
        self.world.rules.confusion
            && self.world.curriculum.slots.is_none()
            && self.answers().is_none()
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
        if let (Some(confused), EvaluationPoint::Task, true) =
            (&tally.confused, point, self.answers().is_none())
        {
            effects.push(Effect::Confused(task, confused.clone()));
        }
        self.tested = Some((self.digest, self.seen(), tally));
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
        let numbers = Numbers { digest: Some(Digest(self.digest)), ..Numbers::default() };
        effects.push(Effect::Record(event, Some(numbers)));
        self.task += 1;
        self.between_rounds(SnapshotPlace::Task(task), effects)?;
        self.begin_period(now, effects)
    }
}
