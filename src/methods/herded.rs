//! Candidates for exemplars: features of a shard, class by class.

use std::collections::BTreeMap;

use crate::data::Shard;
use crate::learning::Classifier;
use crate::policy::{ModelFacts, PolicyError, RunContext};

/// Samples of one class with their features, concatenated.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub samples: Vec<u32>,
    pub features: Vec<f32>,
}

impl Candidates {
    /// Returns the width of a feature.
    pub fn dim(&self) -> usize {
        self.features.len() / self.samples.len().max(1)
    }
}

/// Returns the candidates of a shard by head row.
///
/// Features are those of this model under the statistics transform.
///
/// # Errors
/// When a sample cannot be read, or does not fit the model.
pub(super) fn features_by_row(
    shard: &Shard,
    model: &Classifier,
    ctx: &RunContext,
) -> Result<BTreeMap<u32, Candidates>, PolicyError> {
    let loader = ctx.with_frozen_features(ctx.statistics_loader(shard), model.frozen_part())?;
    let mut classes: BTreeMap<u32, Candidates> = BTreeMap::new();
    for batch in loader.in_order(ctx.evaluation_batch) {
        let batch = batch?;
        let found = model.batch_features(&batch, &ctx.device)?.to_vec2::<f32>()?;
        for ((sample, label), feature) in batch.samples().iter().zip(batch.labels()).zip(found) {
            let class = classes.entry(*label).or_default();
            class.samples.push(*sample);
            class.features.extend(feature);
        }
    }
    Ok(classes)
}

/// Returns the number of exemplars that a client is assumed to hold after `tasks` tasks.
///
/// Virtual time does not know earlier shards: it assumes that the client had as many samples of every task as of this
/// one, and at most its budget.
pub(super) fn exemplars_after(tasks: usize, samples: usize, budget: usize) -> usize {
    budget.min(samples.saturating_mul(tasks))
}

/// Returns the sample passes of choosing exemplars among the samples of `classes` new classes.
///
/// The budget is divided among all `seen` classes. A sample costs a forward pass; a choice costs the distances of all
/// samples of its class.
pub(super) fn choosing_work(
    model: &ModelFacts,
    samples: usize,
    (classes, seen): (usize, usize),
    budget: usize,
) -> f64 {
    let each = (budget / seen.max(1)).min(samples.div_ceil(classes.max(1)));
    herding_work(model, samples, each)
}

/// Returns the sample passes of choosing `each` exemplars of every class by herding.
///
/// A sample costs a forward pass; a choice costs the distances of all samples of its class.
pub(super) fn herding_work(model: &ModelFacts, samples: usize, each: usize) -> f64 {
    let distances = samples as f64 * each as f64 * model.backbone.dim() as f64;
    samples as f64 / 3.0 + model.passes(distances)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{
        ClassPermutation, Normalization, TaskSequence, TaskSizes, Transform, digits,
    };
    use crate::model::{Backbone, LinearHead, Parameter, ParameterSet, PixelShape};

    /// Features are of images of the statistics transform; classes keep the order of the shard.
    #[test]
    fn candidates_are_seen_as_statistics_passes_see_them() {
        let tasks = TaskSequence::new(10, &ClassPermutation::Seeded(1), &TaskSizes::Even(2));
        let pixels = Backbone::Pixels(PixelShape { channels: 1, image: 8 });
        let ctx = RunContext::new(pixels, digits::embedded().unwrap(), tasks.unwrap());
        let divided = |deviation: f32| {
            let (mean, deviation) = (vec![0.0], vec![deviation]);
            let normalization = Normalization::Explicit { mean, deviation };
            std::sync::Arc::new(Transform { normalization, ..Transform::default() })
        };
        let (train_transform, statistics_transform) = (divided(4.0), divided(0.5));
        let ctx = RunContext { train_transform, statistics_transform, ..ctx };
        let zeros = |shape: Vec<usize>| Parameter {
            values: vec![0.0; shape.iter().product()].into(),
            shape,
        };
        let head = [(LinearHead::WEIGHT, zeros(vec![10, 64])), (LinearHead::BIAS, zeros(vec![10]))];
        let model =
            Classifier::frozen(&ctx.backbone, &head.into_iter().collect::<ParameterSet>()).unwrap();
        let by_class = ctx.dataset.train.by_class();
        let shard: Shard = [by_class[3][0], by_class[8][4], by_class[3][9]].into_iter().collect();
        let found = features_by_row(&shard, &model, &ctx).unwrap();
        assert_eq!(found.len(), 2);
        for (class, samples) in [(3, vec![shard[0], shard[2]]), (8, vec![shard[1]])] {
            let own = &found[&ctx.task_sequence.row_of(class)];
            assert_eq!((&own.samples, own.dim()), (&samples, 64));
            let pixels = samples.iter().flat_map(|sample| {
                ctx.dataset.train.image(*sample as usize).unwrap().pixels.to_vec()
            });
            for (feature, pixel) in own.features.iter().zip(pixels) {
                assert!((feature - f32::from(pixel) / 255.0 / 0.5).abs() < 1e-5);
            }
        }
    }
}
