//! The one way to evaluate: a predictor turns pixels into scores over head rows.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{PolicyError, RunContext};
use crate::data::Batch;
use crate::model::FrozenPart;
use crate::wire::Body;

/// Which head rows may be predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Class-incremental: rows `0..seen`, no task id given.
    Seen(usize),
    /// Task-incremental: the rows of one task, or of one slot, and the model may use that it is told which.
    Task(Range<usize>),
}

impl Scope {
    /// The rows as a range.
    pub fn rows(&self) -> Range<usize> {
        match self {
            Scope::Seen(seen) => 0..*seen,
            Scope::Task(rows) => rows.clone(),
        }
    }
}

/// A frozen model that answers. Shared by all evaluation jobs of a round.
pub trait Predictor: Send + Sync {
    /// `(batch, channels, height, width)` to `(batch, dim)`.
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError>;

    /// `(batch, channels, height, width)` to `(batch, rows in scope)`.
    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError>;

    /// The same predictor with its tensors on the device of `lab`, or `None` where it can be used
    /// there as it is. Tensors must not cross from one worker of a GPU to another, so whatever
    /// holds tensors and may be used on a GPU answers this; on CPUs nothing is ever copied.
    fn to_device(&self, ctx: &RunContext) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let _ = ctx;
        Ok(None)
    }

    /// How much of it is frozen for the rest of the run: what a cache may hand over in place of
    /// pixels.
    fn frozen_part(&self) -> FrozenPart {
        FrozenPart::Nothing
    }

    /// Whether answers depend on queries, the features of the unprompted backbone. Batches that bring
    /// them ([`RunContext::with_queries`]) spare it a pass through the backbone.
    fn asks_queries(&self) -> bool {
        false
    }

    /// [`features`](Predictor::features) of a batch of images, or of what
    /// [`frozen_part`](Predictor::frozen_part) gives for them.
    fn batch_features(&self, batch: &Batch, device: &Device) -> Result<Tensor, PolicyError> {
        self.features(&batch.pixels(device)?)
    }

    /// [`scores`](Predictor::scores), in the same way.
    fn batch_scores(
        &self,
        batch: &Batch,
        device: &Device,
        scope: &Scope,
    ) -> Result<Tensor, PolicyError> {
        self.scores(&batch.pixels(device)?, scope)
    }

    /// What a client must hold to compute [`features`](Predictor::features) itself, beside the
    /// backbone; empty where the features are the backbone's own.
    fn feature_state(&self) -> Body {
        Body::default()
    }
}

/// `predictor` as it can be used with `lab`.
pub fn predictor_on(
    predictor: &Arc<dyn Predictor>,
    ctx: &RunContext,
) -> Result<Arc<dyn Predictor>, PolicyError> {
    Ok(predictor.to_device(ctx)?.unwrap_or_else(|| Arc::clone(predictor)))
}
