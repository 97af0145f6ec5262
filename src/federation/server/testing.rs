//! Testing models: the global one after rounds and tasks, those of clients before synchronization.

use std::sync::Arc;

use super::machine::{ServerMachine, ToServer, tell_result};
use crate::federation::bias::Comparison;
use crate::federation::compute::ComparisonRequest;
use crate::federation::effect::Effect;
use crate::federation::event::{EvaluationPoint, Event, Numbers};
use crate::federation::snapshot::SnapshotPlace;
use crate::policy::Predictor;
use crate::quantity::VirtualTime;

impl ServerMachine {
    /// Tests the model on all classes seen.
    pub(super) fn test(
        &mut self,
        now: VirtualTime,
        point: EvaluationPoint,
        predictor: Option<Arc<dyn Predictor>>,
        effects: &mut Vec<Effect>,
    ) {
        let after = match point {
            EvaluationPoint::Round => SnapshotPlace::Round(self.last_round()),
            EvaluationPoint::Task => {
                SnapshotPlace::Task(self.world.curriculum.tasks[self.task].task)
            }
        };
        self.doing = "waits for the evaluation";
        let tallies = self.desk.test(&self.world, after, self.seen(), predictor);
        effects.extend(tell_result(now, tallies, move |t| ToServer::Tested(point, t)));
    }

    /// Measures client models before synchronization.
    pub(super) fn compare(&mut self, now: VirtualTime, effects: &mut Vec<Effect>) {
        let Some(round) = &mut self.round else { return };
        let (world, context) = (Arc::clone(&self.world), Arc::clone(&round.context));
        let models = std::mem::take(&mut round.models);
        self.doing = "waits for client models to be compared";
        let comparison = self.desk.compare(ComparisonRequest { world, context, models });
        effects.extend(tell_result(now, comparison, ToServer::Compared));
    }

    pub(super) fn compared(&mut self, comparison: Comparison, effects: &mut Vec<Effect>) {
        let Some(round) = &self.round else { return };
        let Comparison { clients, figures, responses } = comparison;
        let (round, task) = (round.context.round, round.context.period.task);
        let event = Event::Bias { round, task, clients };
        let numbers = Numbers { metrics: figures, responses, ..Numbers::default() };
        effects.push(Effect::Record(event, Some(numbers)));
    }
}
