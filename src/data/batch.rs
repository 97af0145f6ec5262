//! What a training step or a pass reads: pixels (or tokens, or features) and labels that are head rows.

use candle_core::{Device, Tensor};

use super::DataError;

/// One batch on the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Batch {
    /// Images.
    Images {
        /// `(batch, channels, height, width)`, row-major.
        pixels: Vec<f32>,
        /// The four extents of `pixels`.
        shape: [usize; 4],
        /// Head row of each image, `(batch)`.
        labels: Vec<u32>,
        /// Index of each image in its split, `(batch)`: the key of feature caches.
        samples: Vec<u32>,
    },
    /// Images as a frozen network sees them: computed once, see `learning::feature_cache`.
    Features {
        /// One row per image, row-major.
        values: Vec<f32>,
        /// `[batch, dim]` of features, `[batch, tokens, dim]` of a stream of tokens.
        shape: Vec<usize>,
        /// Head row of each image, `(batch)`.
        labels: Vec<u32>,
        /// Index of each image in its split, `(batch)`.
        samples: Vec<u32>,
    },
    /// Token sequences, padded to one length.
    Tokens {
        /// `(batch, length)`, row-major.
        tokens: Vec<u32>,
        /// The two extents of `tokens`.
        shape: [usize; 2],
        /// Head row of each sequence, `(batch)`.
        labels: Vec<u32>,
        /// Index of each sequence in its split, `(batch)`.
        samples: Vec<u32>,
    },
}

impl Batch {
    /// Samples in the batch.
    pub fn len(&self) -> usize {
        self.labels().len()
    }

    /// Whether it holds no sample; loaders never give such a batch.
    pub fn is_empty(&self) -> bool {
        self.labels().is_empty()
    }

    /// Head rows, `(batch)`.
    pub fn labels(&self) -> &[u32] {
        match self {
            Batch::Images { labels, .. }
            | Batch::Features { labels, .. }
            | Batch::Tokens { labels, .. } => labels,
        }
    }

    /// Sample indices in the split, `(batch)`.
    pub fn samples(&self) -> &[u32] {
        match self {
            Batch::Images { samples, .. }
            | Batch::Features { samples, .. }
            | Batch::Tokens { samples, .. } => samples,
        }
    }

    /// The pixels on a device, f32 `(batch, channels, height, width)`.
    ///
    /// # Errors
    /// When the batch holds no images, or the device has no room.
    pub fn pixels(&self, device: &Device) -> Result<Tensor, DataError> {
        match self {
            Batch::Images { pixels, shape, .. } => {
                Ok(Tensor::from_slice(pixels, shape.as_slice(), device)?)
            }
            Batch::Features { .. } => Err(DataError::unfit(
                "a batch of features has no pixels any more",
                "read the loader of images where pixels are needed",
            )),
            Batch::Tokens { .. } => Err(DataError::unfit(
                "an image model was given a batch of tokens",
                "choose a backbone for text or a data set of images",
            )),
        }
    }
}
