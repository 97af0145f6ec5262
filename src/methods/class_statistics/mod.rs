//! Statistics of class features that clients send, and their use by servers: HGP's prototypes, CCVR's class models,
//! FedProto's means.
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
    /// Gaussian of its features; from at least two samples.
    pub gaussian: ClassGaussian,
}

/// A Gaussian with a variance per dimension or a whole covariance.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassGaussian {
    /// Independent dimensions.
    Diagonal(DiagonalGaussian),
    /// Any covariance.
    Full(FullGaussian),
}

impl ClassGaussian {
    /// Fits the features of a class, each of `dim` numbers.
    pub fn fit(form: CovarianceForm, dim: usize, features: &[Vec<f32>]) -> ClassGaussian {
        match form {
            CovarianceForm::Diagonal => {
                ClassGaussian::Diagonal(DiagonalGaussian::fit(dim, features.iter()))
            }
            CovarianceForm::Full => ClassGaussian::Full(FullGaussian::fit(dim, features)),
        }
    }

    /// Returns the number of samples it was estimated from.
    pub fn count(&self) -> f64 {
        match self {
            ClassGaussian::Diagonal(gaussian) => gaussian.count as f64,
            ClassGaussian::Full(gaussian) => gaussian.count as f64,
        }
    }

    /// Draws with the covariance times `scale` and a little added to the variances.
    ///
    /// # Errors
    /// When it is not finite or, in full, not positive definite.
    pub fn sampler(&self, scale: f64, added: f64) -> Result<Sampler, GaussianError> {
        match self {
            ClassGaussian::Diagonal(gaussian) => gaussian.sampler(scale, added),
            ClassGaussian::Full(gaussian) => gaussian.sampler(scale, added),
        }
    }

    /// Returns the Gaussian of both sets of samples together; of one form.
    ///
    /// # Panics
    /// Where one is diagonal and the other full, which no run holds together.
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
