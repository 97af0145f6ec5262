//! What clients choose exemplars from: features of a shard, class by class.

use std::collections::BTreeMap;

use crate::data::Shard;
use crate::learning::Classifier;
use crate::policy::{Lab, PolicyError};

/// Samples of a class and their features, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub samples: Vec<u32>,
    pub features: Vec<f32>,
}

impl Candidates {
    /// Width of a feature.
    pub fn dim(&self) -> usize {
        self.features.len() / self.samples.len().max(1)
    }
}

/// Features of a shard by this model, as statistics passes see its samples, by head row.
///
/// # Errors
/// When a sample cannot be read, or does not fit the model.
pub(super) fn features_by_row(
    shard: &Shard,
    model: &Classifier,
    lab: &Lab,
) -> Result<BTreeMap<u32, Candidates>, PolicyError> {
    let loader = lab.frozen(lab.statistics_loader(shard), model.frozen_part())?;
    let mut classes: BTreeMap<u32, Candidates> = BTreeMap::new();
    for batch in loader.in_order(lab.evaluation_batch) {
        let batch = batch?;
        let found = model.batch_features(&batch, &lab.device)?.to_vec2::<f32>()?;
        for ((sample, label), feature) in batch.samples().iter().zip(batch.labels()).zip(found) {
            let class = classes.entry(*label).or_default();
            class.samples.push(*sample);
            class.features.extend(feature);
        }
    }
    Ok(classes)
}
