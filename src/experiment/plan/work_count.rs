//! Floating-point operations of a run, two for a multiplication with its addition.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::data::{TaskSequence, TaskView};
use crate::federation::{PlannedParticipant, RunSpec};
use crate::learning::TrainingPlan;
use crate::policy::{Method, ModelFacts, RoundContext, RoundWork, SampleCost, multiplications};

/// Operations of a multiplication and the addition of its result.
const OPERATIONS: f64 = 2.0;

/// Work of clients and server, as their method counts it.
pub(super) struct WorkCount {
    method: Arc<dyn Method>,
    model: ModelFacts,
    training: TrainingPlan,
    task_sequence: Arc<TaskSequence>,
    /// Cost of a sample by the head rows of its view and the phase: the same for all clients.
    of_samples: BTreeMap<(usize, [usize; 2], usize), SampleCost>,
}

impl WorkCount {
    pub fn new(terms: &RunSpec) -> WorkCount {
        WorkCount {
            method: Arc::clone(&terms.method),
            model: terms.facts.clone(),
            training: terms.training.clone(),
            task_sequence: Arc::clone(&terms.task_sequence),
            of_samples: BTreeMap::new(),
        }
    }

    /// Returns the operations of a participant in its round.
    pub fn of_client(&mut self, planned: &PlannedParticipant<'_>) -> f64 {
        let PlannedParticipant { context, participant, samples, .. } = *planned;
        let sample = self.of_sample(&participant.view, context.phase);
        let work = RoundWork::Participant { participant, samples, plan: &self.training };
        OPERATIONS * multiplications(&*self.method, &self.model, context, &work, &sample)
    }

    /// Returns the sample passes and the operations of the server as a round closes.
    pub fn of_server(&mut self, round: &RoundContext, updates: usize) -> (f64, f64) {
        let (sample, work) =
            (self.of_sample(&round.stage.view, round.phase), RoundWork::Server { updates });
        let operations =
            OPERATIONS * multiplications(&*self.method, &self.model, round, &work, &sample);
        (self.method.cost(round, &work), operations)
    }

    /// Returns the operations of an answer to a sample after the last task.
    pub fn of_answer(&self) -> f64 {
        let last = self.task_sequence.tasks.last();
        let answer = |view| self.method.sample_cost(&self.model, view, usize::MAX).inference;
        last.map_or(0.0, |view| OPERATIONS * answer(view))
    }

    fn of_sample(&mut self, view: &TaskView, phase: usize) -> SampleCost {
        let key = (view.task.index(), [view.rows.start, view.rows.end], phase);
        let (method, model) = (&self.method, &self.model);
        *self.of_samples.entry(key).or_insert_with(|| method.sample_cost(model, view, phase))
    }
}
