//! Pixels of several samples, one behind the other.

use super::prepared::Prepared;
use super::transform::{Transform, Workspace};
use super::{DataError, Split};
use crate::numerics::streams::{Domain, StreamKey};

/// Pixels of a batch, row-major, and their `(batch, channels, height, width)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Stacked {
    /// Values, in the number that the shape gives.
    pub pixels: Vec<f32>,
    /// The four extents.
    pub shape: [usize; 4],
}

/// Source of one image: its split, transform and prepared pixels.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub split: &'a Split,
    pub transform: &'a Transform,
    pub prepared: Option<&'a Prepared>,
}

impl View<'_> {
    /// Returns the pixels of `samples`; `key` is where a sample draws its augmentation.
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
    /// Appends the pixels of a sample after a transform, whose draws are at the key, to `out`. Returns their
    /// `[channels, height, width]`.
    ///
    /// # Errors
    /// A sample that cannot be read, or that the transform does not fit.
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
    /// A sample that cannot be read, samples of different shapes, or a transform that draws.
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
        // Never drawn from.
        let key = StreamKey::new(0, Domain::Augment);
        view.stack(samples, &mut Workspace::default(), |_| key)
    }
}
