//! Image transforms from bytes to the network's input: resize, crop, flip, jitter, normalize.
//!
//! A [`Transform`] is a list of steps; the draws of one image come from one named stream, so
//! the order in which images are read changes nothing. Images stay bytes until a step needs floats (Pillow's
//! kernels work on bytes, the other two on floats in `[0, 1]`).
//!
//! ```
//! use fedcast::data::{digits, Kernel, Normalization, Step, Transform, Workspace};
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! let transform = Transform {
//!     steps: vec![Step::Resize { side: 32, kernel: Kernel::Pillow }],
//!     normalization: Normalization::Half,
//!     channels: Some(3), // gray becomes red = green = blue
//! };
//! let digits = digits::embedded()?;
//! let (key, mut pixels) = (StreamKey::new(0, Domain::Augment), Vec::new());
//! let shape = transform.apply(&digits.train.image(0)?, key, &mut Workspace::default(), &mut pixels)?;
//! assert_eq!(shape, [3, 32, 32]);
//! # Ok::<(), fedcast::data::DataError>(())
//! ```

mod canvas;
mod crop;
mod jitter;
mod normalize;
mod resize;

pub use canvas::Workspace;
pub(crate) use canvas::shorter_to;
pub use jitter::Jitter;
pub(crate) use normalize::ChannelScales;
pub use normalize::Normalization;
pub use resize::Kernel;
pub(crate) use resize::{ResizeWeights, resize_f32, resize_u8};

use rand::RngCore;

use super::{DataError, Image};
use crate::numerics::distributions::chance;
use crate::numerics::streams::StreamKey;

/// One operation on an image.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The shorter side becomes `side`, the other follows in proportion.
    Resize {
        /// Pixels of the shorter side.
        side: usize,
        /// Kernel of the interpolation.
        kernel: Kernel,
    },
    /// Both sides become `side`, for any shape.
    Squash {
        /// Pixels of both sides.
        side: usize,
        /// Kernel of the interpolation.
        kernel: Kernel,
    },
    /// Crops the central `side x side`.
    CenterCrop {
        /// Pixels of both sides.
        side: usize,
    },
    /// Crops a random `side x side` window, after adding `padding` black pixels at every border.
    RandomCrop {
        /// Pixels of both sides.
        side: usize,
        /// Pixels added at every border.
        padding: usize,
    },
    /// torchvision's `RandomResizedCrop` to `side x side`.
    RandomResizedCrop {
        /// Pixels of both sides of the result.
        side: usize,
        /// Smallest and largest share of the area.
        scale: [f64; 2],
        /// Smallest and largest width/height.
        ratio: [f64; 2],
        /// Kernel of the interpolation.
        kernel: Kernel,
    },
    /// Mirrors left and right.
    Flip {
        /// Probability, usually 0.5; with 1 nothing is drawn.
        probability: f64,
    },
    /// Changes brightness, contrast and saturation (torchvision's `ColorJitter`).
    Jitter(Jitter),
}

/// Pipeline of an image: steps in order, then normalization.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transform {
    /// Steps, in order.
    pub steps: Vec<Step>,
    /// Normalization per channel, applied last.
    pub normalization: Normalization,
    /// Number of channels to which gray images are repeated; `None` leaves channels unchanged.
    pub channels: Option<usize>,
}

impl Transform {
    /// Returns true if no step draws, so that an image always gives the same pixels.
    pub fn is_deterministic(&self) -> bool {
        self.steps.iter().all(|step| match step {
            Step::Resize { .. } | Step::Squash { .. } | Step::CenterCrop { .. } => true,
            Step::Flip { probability } => *probability >= 1.0,
            Step::RandomCrop { .. } | Step::RandomResizedCrop { .. } | Step::Jitter(_) => false,
        })
    }

    /// Returns the transform followed by a horizontal flip.
    pub fn mirrored(&self) -> Transform {
        let mut mirrored = self.clone();
        mirrored.steps.push(Step::Flip { probability: 1.0 });
        mirrored
    }

    /// Returns `[channels, height, width]` of the result for an image of this shape.
    ///
    /// Random steps have a fixed output size, too.
    pub fn output_shape(&self, [channels, height, width]: [usize; 3]) -> [usize; 3] {
        let (mut h, mut w) = (height, width);
        for step in &self.steps {
            (h, w) = match *step {
                Step::Resize { side, .. } => canvas::shorter_to(h, w, side),
                Step::Squash { side, .. }
                | Step::CenterCrop { side }
                | Step::RandomCrop { side, .. }
                | Step::RandomResizedCrop { side, .. } => (side, side),
                Step::Flip { .. } | Step::Jitter(_) => (h, w),
            };
        }
        [self.channels.unwrap_or(channels), h, w]
    }

    /// Appends the pixels of one image to `out` and returns its `[channels, height, width]`.
    ///
    /// `key` is the stream of this image in this epoch; a deterministic transform does not
    /// read it. `workspace` keeps scratch memory and resize weights between images.
    ///
    /// # Errors
    /// Returns an error if a crop is larger than the image, or numbers of channels do not fit.
    pub fn apply(
        &self,
        image: &Image<'_>,
        key: StreamKey,
        workspace: &mut Workspace,
        out: &mut Vec<f32>,
    ) -> Result<[usize; 3], DataError> {
        workspace.load(image);
        self.apply_loaded(key, workspace, out)
    }

    /// Appends the pixels of one image of floats to `out`, as [`apply`](Self::apply) does.
    ///
    /// # Errors
    /// Fails as [`apply`](Self::apply) does.
    pub fn apply_to_floats(
        &self,
        image: &Image<'_, f32>,
        key: StreamKey,
        workspace: &mut Workspace,
        out: &mut Vec<f32>,
    ) -> Result<[usize; 3], DataError> {
        workspace.load_floats(image);
        self.apply_loaded(key, workspace, out)
    }

    fn apply_loaded(
        &self,
        key: StreamKey,
        workspace: &mut Workspace,
        out: &mut Vec<f32>,
    ) -> Result<[usize; 3], DataError> {
        let mut rng = (!self.is_deterministic()).then(|| key.rng());
        for step in &self.steps {
            match rng.as_mut() {
                Some(rng) => workspace.random_step(step, rng)?,
                None => workspace.plain_step(step)?,
            }
        }
        workspace.finish(&self.normalization, self.channels, out)
    }
}

impl Workspace {
    fn plain_step(&mut self, step: &Step) -> Result<(), DataError> {
        let (h, w) = self.size();
        match *step {
            Step::Resize { side, kernel } => {
                let (height, width) = canvas::shorter_to(h, w, side);
                self.resize(kernel, height, width);
            }
            Step::Squash { side, kernel } => self.resize(kernel, side, side),
            Step::CenterCrop { side } => {
                self.check_window(side)?;
                self.cut(crop::center(h, w, side));
            }
            Step::Flip { .. } => self.mirror(),
            Step::RandomCrop { .. } | Step::RandomResizedCrop { .. } | Step::Jitter(_) => {
                unreachable!("a transform with a random step has a generator")
            }
        }
        Ok(())
    }

    fn random_step(&mut self, step: &Step, rng: &mut impl RngCore) -> Result<(), DataError> {
        match *step {
            Step::RandomCrop { side, padding } => {
                self.pad(padding);
                self.check_window(side)?;
                let (h, w) = self.size();
                self.cut(crop::random(rng, h, w, side));
            }
            Step::RandomResizedCrop { side, scale, ratio, kernel } => {
                let (h, w) = self.size();
                self.cut(crop::random_resized(rng, h, w, scale, ratio));
                self.resize(kernel, side, side);
            }
            Step::Flip { probability } => {
                if chance(rng, probability) {
                    self.mirror();
                }
            }
            Step::Jitter(jitter) => {
                for (property, factor) in jitter.draw(rng) {
                    self.adjust(property, factor);
                }
            }
            Step::Resize { .. } | Step::Squash { .. } | Step::CenterCrop { .. } => {
                self.plain_step(step)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
