//! Multiplications of a round's work, for counts of floating-point operations.

use super::{Method, ModelFacts, RoundContext, RoundWork, SampleCost};
use crate::learning::TrainingPlan;

/// Returns the multiplications of a piece of work in a round.
///
/// `sample` is the [`sample_cost`](Method::sample_cost) of the method in the phase of the round. If the multiplications
/// follow from sample passes ([`Method::cost`]), a training pass costs what it does for a sample, and any other pass as
/// much as if everything were trained.
pub fn multiplications(
    method: &dyn Method,
    model: &ModelFacts,
    round: &RoundContext,
    work: &RoundWork<'_>,
    sample: &SampleCost,
) -> f64 {
    match (sample.work, *work) {
        (Some(known), RoundWork::Participant { samples, .. }) => samples as f64 * known.client,
        (Some(known), RoundWork::Server { .. }) => known.server,
        (None, RoundWork::Server { .. }) => method.cost(round, work) * pass(model),
        (None, RoundWork::Participant { participant, samples, plan }) => {
            let passes = method.cost(round, work);
            let still = TrainingPlan { epochs: 0, ..plan.clone() };
            let still = RoundWork::Participant { participant, samples, plan: &still };
            let trained =
                (passes - method.cost(round, &still)).min(samples as f64 * f64::from(plan.epochs));
            (passes - trained) * pass(model) + trained * sample.training()
        }
    }
}

/// Returns the multiplications of a sample pass of virtual time.
fn pass(model: &ModelFacts) -> f64 {
    3.0 * model.forward()
}
