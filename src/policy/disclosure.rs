//! Information in an upload that inversion attacks: mean vectors of classes, and parameter updates.

use std::fmt;

use candle_core::Tensor;

use super::PolicyError;
use crate::learning::feature_inversion::UpdateMatching;

/// Maps images `(batch, channels, height, width)` to vectors `(batch, width)`, with a gradient.
pub type FeatureMap = Box<dyn Fn(&Tensor) -> Result<Tensor, PolicyError>>;

/// Information in an upload about the images of single classes.
pub enum Disclosures {
    /// Mean vectors of classes.
    Means {
        /// Map from one image to the vector of one image, as the client computed it.
        map: FeatureMap,
        /// Classes that the upload describes.
        classes: Vec<ClassDisclosure>,
    },
    /// Parameters that the client's training moved, such as prompts, adapters and a head.
    Update {
        /// Gradients of images, to be compared with the move.
        matching: Box<UpdateMatching>,
        /// Classes that the client trained on.
        classes: Vec<TrainedClass>,
    },
}

impl Disclosures {
    /// Returns head row and number of samples of every class, in the order of its list.
    pub fn classes(&self) -> Vec<(usize, u64)> {
        match self {
            Disclosures::Means { classes, .. } => {
                classes.iter().map(|class| (class.row, class.samples)).collect()
            }
            Disclosures::Update { classes, .. } => {
                classes.iter().map(|class| (class.row, class.samples)).collect()
            }
        }
    }
}

/// Class of the samples that moved parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainedClass {
    /// Head row of the class.
    pub row: usize,
    /// Label of the class in the network that the client trained.
    pub label: u32,
    /// Number of samples.
    pub samples: u64,
}

/// Mean vector of the samples of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassDisclosure {
    /// Head row of the class.
    pub row: usize,
    /// Number of samples of the mean.
    pub samples: u64,
    /// Mean vector `(width,)`.
    pub mean: Vec<f64>,
}

impl fmt::Debug for Disclosures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disclosures").field("classes", &self.classes()).finish_non_exhaustive()
    }
}
