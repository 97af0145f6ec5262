//! Vectors of single classes in an upload, which feature inversion attacks.

use std::fmt;

use candle_core::Tensor;

use super::PolicyError;

/// Maps images `(batch, channels, height, width)` to vectors `(batch, width)`, with a gradient.
pub type FeatureMap = Box<dyn Fn(&Tensor) -> Result<Tensor, PolicyError>>;

/// Vectors of classes in an upload, and the map by which the client computed them from images.
pub struct Disclosures {
    /// Map from one image to the vector of one image.
    pub map: FeatureMap,
    /// Classes that the upload describes.
    pub classes: Vec<ClassDisclosure>,
}

/// Mean vector of the samples of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassDisclosure {
    /// Head row of the class.
    pub row: usize,
    /// Number of samples of the mean.
    pub samples: u64,
    /// `(width,)`.
    pub mean: Vec<f64>,
}

impl fmt::Debug for Disclosures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disclosures").field("classes", &self.classes).finish_non_exhaustive()
    }
}
