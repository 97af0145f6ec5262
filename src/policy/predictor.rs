//! The one way to evaluate: a predictor turns pixels into scores over head rows.

use std::ops::Range;

use candle_core::Tensor;

use super::PolicyError;
use crate::wire::Body;

/// Which head rows may be predicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Class-incremental: rows `0..seen`, no task id given.
    Seen(usize),
    /// Task-incremental: the rows of one task.
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

    /// What a client must hold to compute [`features`](Predictor::features) itself, beside the
    /// backbone; empty where the features are the backbone's own.
    fn feature_state(&self) -> Body {
        Body::default()
    }
}
