//! The one way to evaluate: a predictor turns pixels into scores over head rows.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{PolicyError, RunContext};
use crate::data::Batch;
use crate::model::FrozenPart;
use crate::wire::Body;

/// Head rows that may be predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Class-incremental: rows `0..seen`, no task id given.
    Seen(usize),
    /// Task-incremental: the rows of one task or client task; the model may use the task's identity.
    Task(Range<usize>),
}

impl Scope {
    /// Returns the rows as a range.
    pub fn rows(&self) -> Range<usize> {
        match self {
            Scope::Seen(seen) => 0..*seen,
            Scope::Task(rows) => rows.clone(),
        }
    }
}

/// A frozen model that answers. Shared by all evaluation jobs of a round.
pub trait Predictor: Send + Sync {
    /// Returns the features: `(batch, channels, height, width)` to `(batch, dim)`.
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError>;

    /// Returns the [`features`](Predictor::features) of pixels that are computed from variables: their gradient reaches
    /// the pixels, and the bits of a sample may depend on its batch.
    fn features_with_gradient(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        self.features(pixels)
    }

    /// Returns the scores: `(batch, channels, height, width)` to `(batch, rows in scope)`.
    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError>;

    /// Returns a copy with its tensors on the device of `ctx`, or `None` if it can be used there as it is.
    ///
    /// Tensors must not cross from one worker of a GPU to another, so every type that holds tensors and may be used on
    /// a GPU implements this; on CPUs nothing is ever copied.
    fn to_device(&self, ctx: &RunContext) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let _ = ctx;
        Ok(None)
    }

    /// Returns the part that is frozen for the rest of the run.
    ///
    /// A cache may give its outputs in place of pixels.
    fn frozen_part(&self) -> FrozenPart {
        FrozenPart::Nothing
    }

    /// Returns the rows that its head has; `None` if it has all.
    fn head_rows(&self) -> Option<Range<usize>> {
        None
    }

    /// Returns true if answers depend on queries, the features of the unprompted backbone.
    ///
    /// Batches that carry them ([`RunContext::with_queries`]) spare it a pass through the backbone.
    fn asks_queries(&self) -> bool {
        false
    }

    /// Returns the [`features`](Predictor::features) of a batch.
    ///
    /// The batch has images, or outputs of the [`frozen_part`](Predictor::frozen_part).
    fn batch_features(&self, batch: &Batch, device: &Device) -> Result<Tensor, PolicyError> {
        self.features(&batch.pixels(device)?)
    }

    /// Returns the [`scores`](Predictor::scores) of a batch of images, or of frozen outputs for them.
    fn batch_scores(
        &self,
        batch: &Batch,
        device: &Device,
        scope: &Scope,
    ) -> Result<Tensor, PolicyError> {
        self.scores(&batch.pixels(device)?, scope)
    }

    /// Returns the state that a client needs to compute features, besides the backbone.
    ///
    /// See [`features`](Predictor::features).
    ///
    /// Empty if the features are the backbone's own.
    fn feature_state(&self) -> Body {
        Body::default()
    }
}

/// Returns `predictor` in a form that can be used with `ctx`.
pub fn predictor_on(
    predictor: &Arc<dyn Predictor>,
    ctx: &RunContext,
) -> Result<Arc<dyn Predictor>, PolicyError> {
    Ok(predictor.to_device(ctx)?.unwrap_or_else(|| Arc::clone(predictor)))
}
