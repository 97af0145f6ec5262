//! Local class distribution compensation: tokens that move a client's features of a class towards the Gaussian of all
//! clients' features of it.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};

use super::C2Prompt;
use super::moments::{ClassMoments, Gaussians, MomentSums};
use super::state::Prompts;
use crate::data::Shard;
use crate::learning::{LearningError, TrainingPlan, TrainingReport, train};
use crate::model::{Adaptation, FrozenPart, Parameter};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{Lab, PolicyError, Seat};

/// Standard deviation of start values.
const START: f32 = 0.02;

/// `1/2 (f - mu)^T diag(1 / var) (f - mu)`, the mean over samples of features `(b, d)`: minus the logarithm of the
/// Gaussian's density, up to a constant. `means` and `precisions` are `(b, d)`.
///
/// # Errors
/// When shapes differ.
pub fn alignment(
    features: &Tensor,
    means: &Tensor,
    precisions: &Tensor,
) -> candle_core::Result<Tensor> {
    let squared = ((features - means)?.sqr()? * precisions)?;
    squared.sum(1)?.mean_all()? * 0.5
}

/// Trained prompts and how training went.
pub struct Compensated {
    /// One per class.
    pub prompts: Prompts,
    /// The alignment loss on the way.
    pub report: TrainingReport,
}

impl C2Prompt {
    /// Moments of the frozen network's features of a shard, by class.
    ///
    /// # Errors
    /// When samples cannot be read.
    pub fn moments(
        &self,
        seat: &Seat,
        shard: &Shard,
        lab: &Lab,
    ) -> Result<ClassMoments, PolicyError> {
        let (rows, dim) = (&seat.view.rows, lab.backbone.dim());
        let mut sums = MomentSums::new(rows.len(), dim);
        let loader = lab.frozen(lab.statistics_loader(shard), FrozenPart::Whole)?;
        for batch in loader.in_order(lab.evaluation_batch) {
            let batch = batch?;
            let features = match batch.inputs() {
                crate::data::Batch::Features { values, .. } => values.clone(),
                _ => {
                    let found = lab.backbone.frozen(&lab.pixels(&batch)?, FrozenPart::Whole)?;
                    found.flatten_all()?.to_vec1::<f32>()?
                }
            };
            for (row, feature) in batch.labels().iter().zip(features.chunks_exact(dim)) {
                sums.add(*row as usize - rows.start, feature);
            }
        }
        Ok(sums.finish())
    }

    /// Trains a compensation prompt for every class of a slot.
    ///
    /// # Errors
    /// Numbers that are not finite, samples that cannot be read.
    pub fn compensate(
        &self,
        (seat, shard, key): (&Seat, &Shard, StreamKey),
        gaussians: &Gaussians,
        lab: &Lab,
    ) -> Result<Compensated, PolicyError> {
        let (config, dim) = (&self.config, lab.backbone.dim());
        let shape = [gaussians.classes, config.compensation_len as usize, dim];
        let mut values = vec![0f32; shape.iter().product()];
        fill_normal(&mut key.domain(Domain::Method).rng(), &mut values);
        values.iter_mut().for_each(|value| *value *= START);
        let device = &lab.device;
        let start = Parameter { shape: shape.to_vec(), values: values.into() };
        let prompts: Var = start.variable(device)?;
        let by_class = |values: &[f32]| -> Result<Tensor, PolicyError> {
            Ok(Tensor::from_slice(values, (gaussians.classes, dim), device)?)
        };
        let means = by_class(&gaussians.means)?;
        let precisions = gaussians.precisions(dim, config.variance_eps, config.variance_floor);
        let precisions = by_class(&precisions)?;
        let plan = TrainingPlan { epochs: config.compensation_epochs, ..lab.training.clone() };
        let trainables = [(Arc::from("compensation"), prompts.clone())];
        let first = seat.view.rows.start as u32;
        let loader = lab.train_loader(shard);
        let report = train(&plan, &loader, &trainables, key, |batch| {
            let classes = classes_of(batch.labels(), first, device)?;
            let tokens = prompts.index_select(&classes, 0)?;
            let adaptation = Adaptation { block_tokens: vec![Some(tokens)], ..Adaptation::none() };
            let features = lab.backbone.features(&batch.pixels(device)?, &adaptation)?;
            let of = |rows: &Tensor| rows.index_select(&classes, 0);
            Ok(alignment(&features, &of(&means)?, &of(&precisions)?)?)
        })?;
        let values = Parameter::of(&prompts)?.values;
        Ok(Compensated { prompts: Prompts { shape, values }, report })
    }
}

/// Head rows as classes of a slot.
fn classes_of(labels: &[u32], first: u32, device: &Device) -> Result<Tensor, LearningError> {
    let classes: Vec<u32> = labels.iter().map(|row| row.wrapping_sub(first)).collect();
    Ok(Tensor::from_vec(classes, labels.len(), device)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C2Prompt's card, invariant 2.
    #[test]
    fn the_loss_is_zero_at_the_mean_alone_and_its_slope_pulls_there() -> candle_core::Result<()> {
        let at = |values: [f32; 4]| Tensor::from_vec(values.to_vec(), (2, 2), &Device::Cpu);
        let (means, precisions) = (at([1.0, 2.0, 3.0, 4.0])?, at([1.0, 2.0, 0.5, 4.0])?);
        let loss = |features: &Tensor| alignment(features, &means, &precisions);
        assert_eq!(loss(&means)?.to_scalar::<f32>()?, 0.0);
        let features = Var::from_tensor(&at([2.0, 2.0, 3.0, 3.0])?)?;
        let found = loss(&features)?;
        assert!((found.to_scalar::<f32>()? - 0.25 * (1.0 + 4.0)).abs() < 1e-6);
        let gradients = found.backward()?;
        let slope = gradients.get(&features).unwrap().flatten_all()?.to_vec1::<f32>()?;
        assert_eq!(slope, [0.5, 0.0, 0.0, -2.0]);
        Ok(())
    }
}
