//! Training of one participant in a round, for virtual time.

use crate::learning::TrainingPlan;
use crate::policy::{ModelFacts, Participant, RoundContext};

/// Training of one participant in a round, for virtual time.
#[derive(Clone, Copy)]
pub struct Workload<'a> {
    /// Dimensions of the model.
    pub model: &'a ModelFacts,
    /// The participant.
    pub participant: &'a Participant,
    /// The current round.
    pub round: &'a RoundContext,
    /// Number of the participant's samples.
    pub samples: usize,
    /// Plan of local training.
    pub plan: &'a TrainingPlan,
}

impl Workload<'_> {
    /// Returns the sample passes of the shared training loop: samples times epochs.
    pub fn passes(&self) -> f64 {
        self.passes_over(self.samples)
    }

    /// Returns the sample passes of the shared training loop over this number of samples.
    pub fn passes_over(&self, samples: usize) -> f64 {
        samples as f64 * f64::from(self.plan.epochs)
    }

    /// Returns `passes` and, from the second task on, a forward pass of every teacher for each of them.
    ///
    /// A forward pass counts as a third of a training pass.
    pub fn with_teachers(&self, teachers: u8, passes: f64) -> f64 {
        let teachers =
            if self.participant.view.task.index() > 0 { f64::from(teachers) } else { 0.0 };
        (1.0 + teachers / 3.0) * passes
    }
}
