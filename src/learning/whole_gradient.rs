//! Gradient of a client's whole loss: one pass over its shard, without a step.

use candle_core::Device;

use super::optimizer::lend;
use super::{Classifier, LearningError, PackBatch};
use crate::data::Loader;
use crate::model::ops::SampleGroups;
use crate::numerics::streams::StreamKey;

/// Returns the gradient of the mean cross-entropy over all samples of a shard. It has the order of the network's
/// variables, each row-major. Batches are summed in f64, weighted by their samples. `key` draws augmentation. An empty
/// shard gives zeros.
///
/// # Errors
/// Returns an error if a sample cannot be read, a variable has no gradient, or there are several members.
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
        let batch = PackBatch { batch, groups: SampleGroups::one(samples), steps };
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::data::{ClassPermutation, TaskSequence, TaskSizes, Transform, digits};
    use crate::model::{Backbone, LinearHead, Parameter, ParameterSet, PixelShape};
    use crate::numerics::streams::Domain;

    /// A head of zeros gives every class a tenth of the probability.
    ///
    /// So the bias of class `c` is pulled by a tenth less its share.
    #[test]
    fn every_sample_counts_alike_whatever_the_batches() {
        let digits = digits::embedded().unwrap();
        let task_sequence =
            TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(1)).unwrap();
        let loader = Loader::new(
            digits.train,
            (0..7).collect(),
            Arc::new(task_sequence),
            Arc::new(Transform::default()),
        );
        let backbone = Arc::new(Backbone::Pixels(PixelShape { channels: 1, image: 8 }));
        let zeros = |shape: &[usize]| Parameter {
            shape: shape.to_vec(),
            values: vec![0.0; shape.iter().product()].into(),
        };
        let head: ParameterSet =
            [(LinearHead::WEIGHT, zeros(&[10, 64])), (LinearHead::BIAS, zeros(&[10]))]
                .into_iter()
                .collect();
        let network = Classifier::trainable(&backbone, &head, 0..10).unwrap();
        let key = StreamKey::new(1, Domain::Augment);
        let gradient = |batch| whole_gradient(&network, &loader, batch, key, &Device::Cpu).unwrap();
        let at = network.variables().iter().position(|(name, _)| &**name == LinearHead::BIAS);
        let labels = loader.labels();
        for (class, pulled) in gradient(3)[at.unwrap()].iter().enumerate() {
            let share = labels.iter().filter(|label| **label == class as u32).count() as f64 / 7.0;
            assert!((pulled - (0.1 - share)).abs() < 1e-6, "{class}: {pulled}");
        }
        for (parts, whole) in gradient(3).iter().flatten().zip(gradient(7).iter().flatten()) {
            assert!((parts - whole).abs() < 1e-6);
        }
    }
}
