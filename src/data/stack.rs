//! Pixels of several samples, concatenated.

use super::prepared::Prepared;
use super::transform::{Transform, Workspace};
use super::{DataError, Split};
use crate::numerics::streams::{Domain, StreamKey};

/// Pixels of a batch, row-major, and their `(batch, channels, height, width)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacked {
    /// Pixels in row-major order.
    pub pixels: Vec<f32>,
    /// The four extents.
    pub shape: [usize; 4],
}

/// Split seen through a transform: its images, or its prepared pixels if there are any.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub split: &'a Split,
    pub transform: &'a Transform,
    pub prepared: Option<&'a Prepared>,
}

impl View<'_> {
    /// Returns the pixels of `samples`; sample `i` draws its augmentation at `key(i)`.
    pub fn stack(
        &self,
        samples: &[u32],
        workspace: &mut Workspace,
        key: impl Fn(u32) -> StreamKey,
    ) -> Result<Stacked, DataError> {
        let mut pixels = Vec::new();
        let mut shape = [0; 3];
        for (k, &sample) in samples.iter().enumerate() {
            let got = match self.prepared {
                Some(prepared) => {
                    pixels.extend_from_slice(prepared.image(self.split.origin(sample) as usize));
                    prepared.shape()
                }
                None => {
                    let transformed = (self.transform, key(sample));
                    self.split.append(sample as usize, transformed, workspace, &mut pixels)?
                }
            };
            if k == 0 {
                shape = got;
                pixels.reserve_exact((samples.len() - 1) * pixels.len());
            } else if got != shape {
                return Err(DataError::unfit(
                    format!(
                        "samples {} and {sample} differ in shape: {shape:?} and {got:?}",
                        samples[0]
                    ),
                    "end the transform with a crop, or give the data set a stored size",
                ));
            }
        }
        let [channels, height, width] = shape;
        Ok(Stacked { pixels, shape: [samples.len(), channels, height, width] })
    }
}

impl Split {
    /// Appends the transformed pixels of a sample to `out`, and returns their `[channels, height, width]`.
    ///
    /// A random transform draws at the key.
    ///
    /// # Errors
    /// Returns an error if the sample cannot be read, or the transform does not fit it.
    pub(super) fn append(
        &self,
        sample: usize,
        (transform, key): (&Transform, StreamKey),
        workspace: &mut Workspace,
        out: &mut Vec<f32>,
    ) -> Result<[usize; 3], DataError> {
        match self.float_image(sample) {
            Some(image) => transform.apply_to_floats(&image, key, workspace, out),
            None => transform.apply(&self.image(sample)?, key, workspace, out),
        }
    }

    /// Returns the pixels of some samples after a deterministic transform, in their order.
    ///
    /// # Errors
    /// Returns an error if a sample cannot be read, shapes differ, or the transform is random.
    pub fn pixels(&self, transform: &Transform, samples: &[u32]) -> Result<Stacked, DataError> {
        if !transform.is_deterministic() {
            return Err(DataError::unfit(
                "these pixels are read only once, but the transform is random",
                "use a transform without random crop and flip",
            ));
        }
        if let Some((pixels, width)) = self.rows(samples) {
            return Ok(Stacked { pixels, shape: [samples.len(), width, 1, 1] });
        }
        let view = View { split: self, transform, prepared: None };
        // Nothing is drawn, as the transform is deterministic.
        let key = StreamKey::new(0, Domain::Augment);
        view.stack(samples, &mut Workspace::default(), |_| key)
    }
}
