//! Learning: optimisers, losses, local training, evaluation, metrics.

/// How a client trains locally, from `[client]`.
#[derive(Clone, Debug)]
pub struct TrainingPlan {
    /// Passes over the shard per round.
    pub epochs: u32,
    /// Samples of a step.
    pub batch: usize,
}
