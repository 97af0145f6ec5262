//! Signal by which a client notices that a new task has begun.

use clap::ValueEnum;

use super::config::Glfc;
use super::state::GlfcClientState;
use crate::data::Loader;
use crate::learning::Classifier;
use crate::methods::averaging::PackClient;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{PolicyError, RunContext};
use crate::scenario::reader::Choice;

/// Signal by which a client detects a new task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Signal {
    /// Task given by the scenario.
    Task,
    /// Jump of the mean entropy of the received model on the client's data.
    ///
    /// For the clients that are sampled; the release asks all.
    Entropy,
}

impl Glfc {
    /// Returns true if a new task has begun, by the task itself or by the entropy of the received model.
    pub(super) fn is_signaled(
        &self,
        state: &mut GlfcClientState,
        member: &PackClient<'_, GlfcClientState>,
        received: &Classifier,
        ctx: &RunContext,
    ) -> Result<bool, PolicyError> {
        let view = &member.participant.view;
        match self.task_detection {
            Signal::Task => Ok(state.task != Some(view.task)),
            // Without samples there are no predictions: the entropy of the last round with samples stays.
            Signal::Entropy if member.shard.is_empty() => Ok(false),
            Signal::Entropy => {
                let before = state.entropy;
                let loader = self.entropy_transform.loader(member.shard, ctx);
                state.entropy = entropy(loader, received, view.seen(), (member.key, ctx))?;
                Ok(state.entropy - before > self.threshold)
            }
        }
    }
}

/// Returns the mean entropy of a model's predictions on a client's samples, in nats.
///
/// Predictions are over the outputs seen. The releases add 1e-5 to every probability before the logarithm, which
/// changes the entropy by less than `1e-5 seen`.
fn entropy(
    loader: Loader,
    model: &Classifier,
    seen: usize,
    (key, ctx): (StreamKey, &RunContext),
) -> Result<f64, PolicyError> {
    let samples = loader.len();
    let loader = ctx.with_frozen_features(loader, model.frozen_part())?;
    let key = key.domain(Domain::Augment).named("entropy");
    let mut total = 0.0;
    for batch in loader.in_order_drawn(ctx.evaluation_batch, key) {
        let logits = model.logits(&model.batch_features(&batch?, &ctx.device)?)?;
        let logits = logits.narrow(1, 0, seen)?.contiguous()?.to_vec2::<f32>()?;
        total += logits.iter().map(|row| entropy_of(row)).sum::<f64>();
    }
    Ok(total / samples.max(1) as f64)
}

fn entropy_of(logits: &[f32]) -> f64 {
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = || logits.iter().map(|z| f64::from(*z) - f64::from(top));
    let sum: f64 = shifted().map(libm::exp).sum();
    libm::log(sum) - shifted().map(|z| libm::exp(z) * z).sum::<f64>() / sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GLFC card, invariant 6 of the signal: uniform predictions have the entropy `ln K`, certain ones 0.
    #[test]
    fn uniform_answers_have_the_entropy_of_their_number() {
        assert!((entropy_of(&[0.7; 10]) - libm::log(10.0)).abs() < 1e-12);
        assert!(entropy_of(&[900.0, 0.0, -5.0]).abs() < 1e-12);
        // p = (3/4, 1/4)
        let wanted = 0.75 * libm::log(4.0 / 3.0) + 0.25 * libm::log(4.0);
        assert!((entropy_of(&[libm::logf(3.0), 0.0]) - wanted).abs() < 1e-7);
    }
}
