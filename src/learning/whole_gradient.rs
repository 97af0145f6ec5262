//! The gradient of a client's whole loss: one pass over its shard, and no step.

use candle_core::Device;

use super::optimiser::lend;
use super::{Classifier, LearningError, PackBatch};
use crate::data::Loader;
use crate::model::ops::Groups;
use crate::numerics::streams::StreamKey;

/// The gradient of the mean cross-entropy over all samples of a shard, in the order of the network's variables, each
/// row-major; batches add up in f64 by their samples. `key` draws augmentation. An empty shard gives zeros.
///
/// # Errors
/// A sample that cannot be read, a variable without gradient, more than one member.
pub fn whole_gradient(
    network: &Classifier,
    loader: &Loader,
    batch: usize,
    key: StreamKey,
    device: &Device,
) -> Result<Vec<Vec<f64>>, LearningError> {
    let variables = network.variables();
    let mut sums: Vec<Vec<f64>> =
        variables.iter().map(|(_, variable)| vec![0.0; variable.elem_count()]).collect();
    for (step, batch) in loader.in_order_drawn(batch, key).enumerate() {
        let batch = batch?;
        let (samples, steps) = (batch.len(), vec![step as u64]);
        let share = samples as f64 / loader.len().max(1) as f64;
        let batch = PackBatch { batch, groups: Groups::one(samples), steps };
        let gradients = network.pack_losses(&batch, device, None)?.backward()?;
        for ((name, variable), sum) in variables.iter().zip(&mut sums) {
            let missing = || LearningError::NoGradient { name: name.to_string() };
            lend(gradients.get(variable).ok_or_else(missing)?, |gradient| {
                let parts = sum.iter_mut().zip(gradient);
                parts.for_each(|(sum, part)| *sum += share * f64::from(*part));
                Ok(())
            })?;
        }
    }
    Ok(sums)
}
