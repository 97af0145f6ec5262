//! Statistics of class features: clients send them, servers draw or average them.
//!
//! They are HGP's prototypes, CCVR's class models and FedProto's means.
//!
//! ```text
//! client   features of the trained model -> (n, mean, spread) per class     (description)
//! message  counts (n), means (n, dim), spreads (n, ..)                      (messages, means)
//! server   MeanPrototypes: a mean per class                                 (mean_prototypes)
//!          Prototypes: a Gaussian per class and client                      (prototypes)
//!          -> Mixture: features drawn by class and client                   (mixture)
//!          -> Rebalancing: the head trained on them                         (rebalance)
//! ```

mod description;
mod flags;
mod mean_prototypes;
mod means;
mod messages;
mod mixture;
mod prototypes;
mod rebalance;

pub use description::{DescribesClasses, Descriptions, FeatureSpread};
pub use mean_prototypes::{MeanPrototypes, PrototypeWeighting};
pub use means::ClassMean;
pub use mixture::Mixture;
pub use prototypes::{Cells, GaussianLifetime, Prototypes};
pub use rebalance::{Omega, Rebalance, RebalanceLoss, RebalanceSchedule, Rebalancing};

pub(super) use flags::{flag_bytes, flagged, flags};
pub(super) use messages::{described, fields};

use clap::ValueEnum;

use crate::numerics::gaussian::{DiagonalGaussian, FullGaussian, GaussianError, Sampler};
use crate::scenario::reader::Choice;

/// Form of the covariance of a class's Gaussian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum CovarianceForm {
    /// One variance per dimension.
    Diagonal,
    /// Full matrix; no gain according to the paper.
    Full,
}

/// Statistics of one class at one client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassStatistics {
    /// Head row of the class.
    pub row: u32,
    /// Gaussian of the class's features.
    pub gaussian: ClassGaussian,
}

/// Gaussian with a variance per dimension or a full covariance matrix.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassGaussian {
    /// One variance per dimension, without correlations.
    Diagonal(DiagonalGaussian),
    /// Full covariance matrix.
    Full(FullGaussian),
}

impl ClassGaussian {
    /// Fits a Gaussian to the features of a class, each of width `dim`.
    pub fn fit(form: CovarianceForm, dim: usize, features: &[Vec<f32>]) -> ClassGaussian {
        match form {
            CovarianceForm::Diagonal => {
                ClassGaussian::Diagonal(DiagonalGaussian::fit(dim, features.iter()))
            }
            CovarianceForm::Full => ClassGaussian::Full(FullGaussian::fit(dim, features)),
        }
    }

    /// Returns the number of samples that the Gaussian was fitted to.
    pub fn count(&self) -> f64 {
        match self {
            ClassGaussian::Diagonal(gaussian) => gaussian.count as f64,
            ClassGaussian::Full(gaussian) => gaussian.count as f64,
        }
    }

    /// Returns a sampler with covariances times `scale`, and `added` on every variance.
    ///
    /// # Errors
    /// When the Gaussian is not finite, or a full one is not positive definite.
    pub fn sampler(&self, scale: f64, added: f64) -> Result<Sampler, GaussianError> {
        match self {
            ClassGaussian::Diagonal(gaussian) => gaussian.sampler(scale, added),
            ClassGaussian::Full(gaussian) => gaussian.sampler(scale, added),
        }
    }

    /// Returns the Gaussian of the samples of both; they must have the same form.
    ///
    /// # Panics
    /// If one is diagonal and the other full; a run has only one form.
    pub fn merge(&self, other: &ClassGaussian) -> ClassGaussian {
        match (self, other) {
            (ClassGaussian::Diagonal(one), ClassGaussian::Diagonal(other)) => {
                ClassGaussian::Diagonal(one.merge(other))
            }
            (ClassGaussian::Full(one), ClassGaussian::Full(other)) => {
                ClassGaussian::Full(one.merge(other))
            }
            _ => panic!("Gaussians of one run are of one form"),
        }
    }
}
