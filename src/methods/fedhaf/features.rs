//! Frozen features of batches and shards, and the model that predicts from them.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

use super::NetworkShape;
use super::network::FedHafNetwork;
use crate::data::{Batch, Shard};
use crate::model::{Backbone, ByBatch, FrozenPart, ParameterSet, Trains, of_module};
use crate::policy::{PolicyError, Predictor, RunContext, Scope, parameter_sections};
use crate::wire::Body;

/// Returns the frozen features `phi`, `(b, d)`, of a batch of images or of stored features.
pub(super) fn frozen_features(
    backbone: &Backbone,
    batch: &Batch,
    device: &Device,
) -> Result<Tensor, PolicyError> {
    match batch {
        Batch::Features { values, shape, .. } => {
            Ok(Tensor::from_slice(values, shape.as_slice(), device)?)
        }
        _ => Ok(backbone.frozen(&batch.pixels(device)?, FrozenPart::Whole)?),
    }
}

/// Returns the frozen features of a shard in its order, row-major, and the head rows of its samples.
pub(super) fn shard_features(
    ctx: &RunContext,
    shard: &Shard,
) -> Result<(Vec<f32>, Vec<u32>), PolicyError> {
    let loader = ctx.with_frozen_features(ctx.statistics_loader(shard), FrozenPart::Whole)?;
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for batch in loader.in_order(ctx.evaluation_batch) {
        let batch = batch?;
        let found = frozen_features(&ctx.backbone, &batch, &ctx.device)?;
        features.extend(found.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?);
        labels.extend(batch.labels());
    }
    Ok((features, labels))
}

/// Module and head on the frozen extractor, for predictions.
pub(super) struct FedHafModel {
    backbone: Arc<Backbone>,
    network: FedHafNetwork,
    shape: NetworkShape,
    parameters: ParameterSet,
}

impl FedHafModel {
    /// Creates the model from all `rows` head rows of the parameters.
    pub fn new(
        backbone: &Arc<Backbone>,
        shape: NetworkShape,
        parameters: &ParameterSet,
        rows: usize,
    ) -> Result<FedHafModel, PolicyError> {
        let device = &backbone.place().device;
        let network = FedHafNetwork::new(
            &shape,
            parameters,
            Trains::NOTHING,
            0..rows,
            ByBatch::NOTHING,
            device,
        )?;
        let (backbone, parameters) = (Arc::clone(backbone), parameters.clone());
        Ok(FedHafModel { backbone, network, shape, parameters })
    }

    fn scores_of(&self, adjusted: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let (mine, wanted) = (self.network.rows(), scope.rows());
        if wanted.start < mine.start || wanted.end > mine.end {
            return Err(PolicyError::Unsupported(format!(
                "head rows {wanted:?} are asked for, this model has rows {mine:?}"
            )));
        }
        let logits = self.network.logits(adjusted, None)?;
        Ok(logits.narrow(1, wanted.start - mine.start, wanted.len())?.contiguous()?)
    }
}

impl Predictor for FedHafModel {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        let frozen = self.backbone.frozen(pixels, FrozenPart::Whole)?;
        Ok(self.network.adjust(&frozen, None)?)
    }

    fn head_rows(&self) -> Option<Range<usize>> {
        Some(self.network.rows())
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        self.scores_of(&self.features(pixels)?, scope)
    }

    fn to_device(&self, ctx: &RunContext) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        if self.backbone.place().same(ctx.backbone.place()) {
            return Ok(None);
        }
        let rows = self.network.rows().end;
        let there = FedHafModel::new(&ctx.backbone, self.shape, &self.parameters, rows)?;
        Ok(Some(Arc::new(there)))
    }

    fn frozen_part(&self) -> FrozenPart {
        FrozenPart::Whole
    }

    fn batch_features(&self, batch: &Batch, device: &Device) -> Result<Tensor, PolicyError> {
        let frozen = frozen_features(&self.backbone, batch, device)?;
        Ok(self.network.adjust(&frozen, None)?)
    }

    fn batch_scores(
        &self,
        batch: &Batch,
        device: &Device,
        scope: &Scope,
    ) -> Result<Tensor, PolicyError> {
        self.scores_of(&self.batch_features(batch, device)?, scope)
    }

    fn feature_state(&self) -> Body {
        Body::new(Vec::new(), parameter_sections(&self.parameters.filter(of_module)))
    }
}
