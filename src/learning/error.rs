//! Errors of training and evaluation. A client with such an error is a failed participant; the run goes on.

use super::CacheError;
use crate::data::DataError;
use crate::model::ModelError;

/// Reason why training or evaluation stopped.
#[derive(Debug, thiserror::Error)]
pub enum LearningError {
    /// A loss, gradient or score that is NaN or infinite.
    #[error("{what} is not finite at step {step}; lower the learning rate or clip the gradient")]
    NonFinite {
        /// The loss, or the name of the trainable whose gradient it is.
        what: String,
        /// The training step, from 0.
        step: u64,
    },
    /// A declared trainable that the loss does not depend on: it would silently never train.
    #[error(
        "the loss gives no gradient to the trainable `{name}`; use the ops of model::ops (candle's \
         fused norms cut gradients) or do not declare it"
    )]
    NoGradient {
        /// The trainable.
        name: String,
    },
    /// Numbers that do not fit together.
    #[error("{0}")]
    Shape(String),
    /// A sample could not be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A feature cache could not be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The network refused.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The tensor library refused.
    #[error("compute: {0}")]
    Compute(#[from] candle_core::Error),
}
