//! Training of one participant in a round, for virtual time.

use crate::learning::TrainingPlan;
use crate::policy::{ModelFacts, RoundContext, Seat};

/// Training of one participant in a round, for virtual time.
#[derive(Clone, Copy)]
pub struct Workload<'a> {
    /// Dimensions of the model.
    pub model: &'a ModelFacts,
    /// The participant.
    pub seat: &'a Seat,
    /// Which round it is.
    pub round: &'a RoundContext,
    /// Number of its samples.
    pub samples: usize,
    /// Plan of its training.
    pub plan: &'a TrainingPlan,
    /// Sample passes in any round and of any model.
    pub passes: f64,
}
