//! Powder's model: a network per client task, each for its own head rows.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use crate::data::Batch;
use crate::learning::Classifier;
use crate::model::{Backbone, FrozenPart};
use crate::policy::{PolicyError, Predictor, RunContext, Scope};

/// Model of a client task, with its head rows.
#[derive(Clone, Debug)]
pub struct ClientTaskModel {
    /// Head rows of the client task, among those of all.
    pub rows: Range<usize>,
    /// Network with the client task's tokens and head.
    pub model: Arc<Classifier>,
}

/// Predictor of all client tasks: each scores its own head rows, and the largest score wins.
///
/// If a task is given, only client tasks with rows in it take part. Rows that several client tasks have get the mean of
/// their scores; rows that were never trained never win.
#[derive(Clone)]
pub struct ClientTaskModels {
    backbone: Arc<Backbone>,
    models: Vec<ClientTaskModel>,
    frozen: FrozenPart,
    /// True if models have prompts that depend on queries.
    asks: bool,
}

impl ClientTaskModels {
    /// Creates a predictor of client tasks whose lowest block with tokens is `first`.
    pub fn new(
        backbone: &Arc<Backbone>,
        client_tasks: Vec<ClientTaskModel>,
        first: usize,
    ) -> ClientTaskModels {
        let frozen = if first == 0 { FrozenPart::Nothing } else { FrozenPart::Below(first) };
        ClientTaskModels {
            backbone: Arc::clone(backbone),
            models: client_tasks,
            frozen,
            asks: true,
        }
    }

    /// Creates a predictor of networks without prompts, of which this part is frozen.
    pub fn of_networks(
        backbone: &Arc<Backbone>,
        models: Vec<ClientTaskModel>,
        frozen: FrozenPart,
    ) -> ClientTaskModels {
        ClientTaskModels { backbone: Arc::clone(backbone), models, frozen, asks: false }
    }

    /// Returns the scores `(samples, rows in scope)`, from the features of each client task.
    fn collect(
        &self,
        samples: usize,
        scope: &Scope,
        device: &Device,
        features: impl Fn(&Classifier) -> Result<Tensor, PolicyError>,
    ) -> Result<Tensor, PolicyError> {
        let wanted = scope.rows();
        let mut scores = vec![f32::NEG_INFINITY; samples * wanted.len()];
        let mut answered = vec![0u32; wanted.len()];
        for ClientTaskModel { rows, model } in &self.models {
            let common = rows.start.max(wanted.start)..rows.end.min(wanted.end);
            if common.is_empty() {
                continue;
            }
            let logits = model.logits(&features(model)?)?.to_vec2::<f32>()?;
            for row in common {
                let (column, times) = (row - wanted.start, answered[row - wanted.start]);
                for (sample, logits) in logits.iter().enumerate() {
                    let (to, logit) =
                        (&mut scores[sample * wanted.len() + column], logits[row - rows.start]);
                    *to = if times == 0 { logit } else { mean_with(*to, times, logit) };
                }
                answered[column] += 1;
            }
        }
        Ok(Tensor::from_vec(scores, (samples, wanted.len()), device)?)
    }
}

/// Returns the mean of `numbers` values, whose mean is given, and one more.
fn mean_with(mean: f32, numbers: u32, more: f32) -> f32 {
    mean + (more - mean) / (numbers + 1) as f32
}

impl Predictor for ClientTaskModels {
    /// Returns the features of the frozen backbone, since client tasks have different features.
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        Ok(self.backbone.frozen(pixels, FrozenPart::Whole)?)
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let features = |model: &Classifier| Ok(model.features(pixels)?);
        self.collect(pixels.dim(0)?, scope, pixels.device(), features)
    }

    fn batch_scores(
        &self,
        batch: &Batch,
        device: &Device,
        scope: &Scope,
    ) -> Result<Tensor, PolicyError> {
        let features = |model: &Classifier| Ok(model.batch_features(batch, device)?);
        self.collect(batch.len(), scope, device, features)
    }

    fn frozen_part(&self) -> FrozenPart {
        self.frozen
    }

    fn asks_queries(&self) -> bool {
        self.asks
    }

    fn to_device(&self, ctx: &RunContext) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        if self.backbone.place().same(ctx.backbone.place()) {
            return Ok(None);
        }
        let here = |client_task: &ClientTaskModel| -> Result<ClientTaskModel, PolicyError> {
            let model = client_task.model.copy_at(&ctx.backbone)?;
            let model = model.unwrap_or_else(|| Arc::clone(&client_task.model));
            Ok(ClientTaskModel { rows: client_task.rows.clone(), model })
        };
        let client_tasks = self.models.iter().map(here).collect::<Result<_, _>>()?;
        let (backbone, frozen, asks) = (Arc::clone(&ctx.backbone), self.frozen, self.asks);
        Ok(Some(Arc::new(ClientTaskModels { backbone, models: client_tasks, frozen, asks })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_tasks_of_the_same_row_answer_their_mean() {
        assert_eq!(mean_with(mean_with(1.0, 1, 2.0), 2, 6.0), 3.0);
    }
}
