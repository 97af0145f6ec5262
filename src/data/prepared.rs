//! Pixels after a deterministic transform, computed once per split.

use super::Split;
use super::transform::{Transform, Workspace};
use crate::numerics::streams::{Domain, StreamKey};

/// All images of a split after a deterministic transform, `(samples, channels, height, width)`.
#[derive(Debug)]
pub struct Prepared {
    shape: [usize; 3],
    pixels: Vec<f32>,
}

impl Prepared {
    /// Prepares the pixels. `None` if an image fails, shapes differ, or the result exceeds `budget` bytes.
    ///
    /// A caller that then reads the images one by one gets the error of the failing image.
    pub(super) fn make(split: &Split, transform: &Transform, budget: usize) -> Option<Prepared> {
        if !split.has_pixels() {
            return None;
        }
        let mut workspace = Workspace::default();
        let mut pixels = Vec::new();
        let mut shape = [0; 3];
        // Nothing is drawn, as the transform is deterministic.
        let key = StreamKey::new(0, Domain::Augment);
        for i in 0..split.len() {
            let got = split.append(i, (transform, key), &mut workspace, &mut pixels).ok()?;
            if i == 0 {
                shape = got;
                let total = split.len() * pixels.len();
                if total * size_of::<f32>() > budget {
                    return None;
                }
                pixels.reserve_exact(total - pixels.len());
            }
            if got != shape {
                return None;
            }
        }
        Some(Prepared { shape, pixels })
    }

    /// `[channels, height, width]` of every image.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Returns the pixels of sample `i`.
    pub fn image(&self, i: usize) -> &[f32] {
        let size = self.shape.iter().product::<usize>();
        &self.pixels[i * size..(i + 1) * size]
    }

    /// Returns the memory of the pixels, in bytes.
    pub fn bytes(&self) -> usize {
        self.pixels.len() * size_of::<f32>()
    }
}
