//! Frozen network of the first method, as a predictor.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use crate::data::Batch;
use crate::model::{FrozenPart, in_frozen_batches};
use crate::policy::{PolicyError, Predictor, RunContext, Scope};
use crate::wire::Body;

/// Frozen network whose features are cached.
///
/// Their key is the digest of the first method's additions to the backbone.
pub(super) struct FrozenFeatures {
    network: Arc<dyn Predictor>,
    digest: u64,
}

impl FrozenFeatures {
    pub fn new(network: Arc<dyn Predictor>, digest: u64) -> FrozenFeatures {
        FrozenFeatures { network, digest }
    }
}

impl Predictor for FrozenFeatures {
    /// Returns the features of a batch. A sample has the same bits in every batch, so caching changes nothing.
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        in_frozen_batches(pixels, |pixels| self.network.features(pixels))
    }

    fn features_with_gradient(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        self.network.features_with_gradient(pixels)
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        self.network.scores(pixels, scope)
    }

    fn to_device(&self, ctx: &RunContext) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let Some(network) = self.network.to_device(ctx)? else { return Ok(None) };
        Ok(Some(Arc::new(FrozenFeatures::new(network, self.digest))))
    }

    /// Returns the frozen part: the backbone's own features, which may be cached already, if nothing was adapted.
    fn frozen_part(&self) -> FrozenPart {
        match self.network.frozen_part() {
            FrozenPart::Whole => FrozenPart::Whole,
            _ => FrozenPart::Adapted(self.digest),
        }
    }

    fn batch_features(&self, batch: &Batch, device: &Device) -> Result<Tensor, PolicyError> {
        match batch {
            Batch::Features { values, shape, .. } => {
                Ok(Tensor::from_slice(values, shape.as_slice(), device)?)
            }
            _ => self.features(&batch.pixels(device)?),
        }
    }

    fn feature_state(&self) -> Body {
        self.network.feature_state()
    }
}
