//! Errors of policies.

use thiserror::Error;

use crate::data::DataError;
use crate::learning::{CacheError, LearningError};
use crate::model::{ModelError, is_out_of_memory};
use crate::numerics::gaussian::GaussianError;
use crate::numerics::regression_mean::NotFinite;
use crate::wire::WireError;

/// Reason why a policy failed.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// A value that must be finite is not.
    #[error("{0} is not finite; lower the learning rate or check the data")]
    NonFinite(String),
    /// A configuration the method cannot work with.
    #[error("{0}")]
    Unsupported(String),
    /// The backbone or an op refused.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A sample could not be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// A feature cache could not be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A message does not have the expected shape.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A class statistic that cannot be drawn from.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
    /// Weights or second moments that cannot be merged.
    #[error(transparent)]
    Regression(#[from] NotFinite),
    /// The tensor library refused.
    #[error("compute: {0}")]
    Compute(#[from] candle_core::Error),
}

impl PolicyError {
    /// Returns true if a number was not finite: training diverged.
    pub fn is_not_finite(&self) -> bool {
        matches!(
            self,
            PolicyError::NonFinite(_)
                | PolicyError::Regression(_)
                | PolicyError::Gaussian(GaussianError::Invalid(_))
        )
    }

    /// Returns true if the memory of the device was full.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            PolicyError::Compute(error) | PolicyError::Model(ModelError::Tensor(error)) => {
                is_out_of_memory(error)
            }
            _ => false,
        }
    }
}

impl From<LearningError> for PolicyError {
    fn from(error: LearningError) -> PolicyError {
        match error {
            LearningError::NonFinite { what, step } => {
                PolicyError::NonFinite(format!("{what} (step {step})"))
            }
            LearningError::Data(error) => PolicyError::Data(error),
            LearningError::Cache(error) => PolicyError::Cache(error),
            LearningError::Model(error) => PolicyError::Model(error),
            LearningError::Compute(error) => PolicyError::Compute(error),
            other => PolicyError::Unsupported(other.to_string()),
        }
    }
}
