//! Local class distribution compensation (LCDC) at a client: moments of classes, and compensation prompts.
//!
//! The prompt of a class moves the client's features of it towards the Gaussian of all clients' features.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};

use super::C2Prompt;
use super::moments::{ClientTaskMoments, Gaussians};
use super::state::Prompts;
use crate::data::{Batch, Shard};
use crate::learning::compensation::{Whitening, compensation_losses};
use crate::learning::{LearningError, TrainingPlan, TrainingReport, train};
use crate::model::{Adaptation, FrozenPart, Parameter, ops};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{Participant, PolicyError, RunContext};

/// Standard deviation of the initial values of compensation prompts.
const START: f32 = 0.02;

/// Trained compensation prompts and the report of their training.
pub struct Compensated {
    /// Prompts of all classes of the client task.
    pub prompts: Prompts,
    /// Report with the alignment losses.
    pub report: TrainingReport,
}

impl C2Prompt {
    /// Returns the moments of the frozen network's features of a shard, by class.
    ///
    /// # Errors
    /// When samples cannot be read.
    pub fn moments(
        &self,
        participant: &Participant,
        shard: &Shard,
        ctx: &RunContext,
    ) -> Result<ClientTaskMoments, PolicyError> {
        let (rows, dim) = (&participant.view.rows, ctx.backbone.dim());
        let mut by_class = vec![Vec::new(); rows.len()];
        let loader = ctx.with_frozen_features(ctx.statistics_loader(shard), FrozenPart::Whole)?;
        for batch in loader.in_order(ctx.evaluation_batch) {
            let batch = batch?;
            let features = match batch.inputs() {
                Batch::Features { values, .. } => values.clone(),
                _ => {
                    let found = ctx.backbone.frozen(&ctx.pixels(&batch)?, FrozenPart::Whole)?;
                    found.flatten_all()?.to_vec1::<f32>()?
                }
            };
            for (row, feature) in batch.labels().iter().zip(features.chunks_exact(dim)) {
                by_class[*row as usize - rows.start].extend_from_slice(feature);
            }
        }
        Ok(ClientTaskMoments::fit(&by_class, dim))
    }

    /// Trains a compensation prompt for every class of a client task.
    ///
    /// # Errors
    /// When a loss is not finite, or a sample cannot be read.
    pub fn compensate(
        &self,
        (participant, shard, key): (&Participant, &Shard, StreamKey),
        gaussians: &Gaussians,
        ctx: &RunContext,
    ) -> Result<Compensated, PolicyError> {
        let (config, dim) = (&self.config, ctx.backbone.dim());
        let shape = [gaussians.classes, config.compensation_len as usize, dim];
        let mut values = vec![0f32; shape.iter().product()];
        fill_normal(&mut key.domain(Domain::Method).rng(), &mut values);
        values.iter_mut().for_each(|value| *value *= START);
        let device = &ctx.device;
        let start = Parameter { shape: shape.to_vec(), values: values.into() };
        let prompts: Var = start.variable(device)?;
        let by_class = |values: &[f32]| -> Result<Tensor, PolicyError> {
            Ok(Tensor::from_slice(values, (gaussians.classes, dim), device)?)
        };
        let means = by_class(&gaussians.means)?;
        let whitening = Whitening { eps: config.variance_eps, floor: config.variance_floor };
        let precisions = gaussians.precisions(dim, whitening);
        let precisions = by_class(&precisions)?;
        let plan = TrainingPlan { epochs: config.compensation_epochs, ..ctx.training.clone() };
        let trainables = [(Arc::from("compensation"), prompts.clone())];
        let first = participant.view.rows.start as u32;
        let loader = ctx.train_loader(shard);
        let report = train(&plan, &loader, &trainables, key, |batch| {
            let classes = classes_of(batch.labels(), first, device)?;
            let tokens = prompts.index_select(&classes, 0)?;
            let adaptation = Adaptation { block_tokens: vec![Some(tokens)], ..Adaptation::none() };
            let features = ctx.backbone.features(&batch.pixels(device)?, &adaptation)?;
            Ok(misalignment(&features, &classes, (&means, &precisions))?)
        })?;
        let values = Parameter::of(&prompts)?.values;
        Ok(Compensated { prompts: Prompts { shape, values }, report })
    }
}

/// Returns the mean compensation loss of features against the Gaussians of their classes.
///
/// Features are `(batch, dim)`, classes `(batch)`. Means and precisions are `(classes, dim)`.
fn misalignment(
    features: &Tensor,
    classes: &Tensor,
    (means, precisions): (&Tensor, &Tensor),
) -> candle_core::Result<Tensor> {
    let of = |rows: &Tensor| rows.index_select(classes, 0);
    ops::mean_all(&compensation_losses(features, &of(means)?, &of(precisions)?)?)
}

/// Returns head rows as class indices of a client task whose rows begin at `first`, `(batch)`.
fn classes_of(labels: &[u32], first: u32, device: &Device) -> Result<Tensor, LearningError> {
    let classes: Vec<u32> = labels.iter().map(|row| row.wrapping_sub(first)).collect();
    Ok(Tensor::from_vec(classes, labels.len(), device)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Features of rows 5 and 4 of a client task that begins at row 4: each is compared with its own class, by the
    /// precision of this class.
    #[test]
    fn features_are_held_against_their_own_class() {
        let rows = |values: &[f32]| Tensor::from_slice(values, (2, 2), &Device::Cpu).unwrap();
        let (means, precisions) = (rows(&[1.0, 2.0, -3.0, 5.0]), rows(&[1.0, 10.0, 100.0, 1000.0]));
        let classes = classes_of(&[5, 4], 4, &Device::Cpu).unwrap();
        let of = |features: &Tensor| -> f32 {
            misalignment(features, &classes, (&means, &precisions)).unwrap().to_scalar().unwrap()
        };
        assert_eq!(of(&rows(&[-3.0, 5.0, 1.0, 2.0])), 0.0);
        // Half of 100 x 1 and of 10 x 4, over two samples.
        assert_eq!(of(&rows(&[-2.0, 5.0, 1.0, 4.0])), (100.0 + 40.0) / 4.0);
    }
}
