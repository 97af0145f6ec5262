//! Errors of training and evaluation. A client with such an error fails as a participant; the run continues.

use super::CacheError;
use crate::data::DataError;
use crate::model::ModelError;

/// Reason why training or evaluation stopped.
#[derive(Debug, thiserror::Error)]
pub enum LearningError {
    /// Loss, gradient or score that is NaN or infinite.
    #[error("{what} is not finite at step {step}; lower the learning rate or clip the gradient")]
    NonFinite {
        /// Name of the loss, or of the trainable whose gradient it is.
        what: String,
        /// Training step, from 0.
        step: u64,
    },
    /// Declared trainable on which the loss does not depend, so that it would silently never train.
    #[error(
        "the loss gives no gradient to the trainable `{name}`; use the ops of model::ops (candle's \
         fused norms cut gradients) or do not declare it"
    )]
    NoGradient {
        /// Name of the trainable.
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
    /// Error of the network.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Error of the tensor library.
    #[error("compute: {0}")]
    Compute(#[from] candle_core::Error),
}
