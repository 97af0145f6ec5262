//! LPIPS of two images: the distance of their features in AlexNet, with weights from a file.
//!
//! ```text
//! input      (2 x - 1 - shift) / scale              by channel, of images in [0, 1]
//! features   f_k after the ReLU of convolution k = 0 .. 4; unit length at every position
//! LPIPS      sum_k  mean over positions of  sum_c w_kc (f_kc - g_kc)^2
//! ```
//! Sources: Zhang et al., "The Unreasonable Effectiveness of Deep Features as a Perceptual Metric", CVPR 2018; version
//! 0.1 of its release (`lpips` on PyPI) with `net="alex"`, whose trained weights are not part of fedcast.

use std::path::Path;

use candle_core::{Device, Tensor};
use thiserror::Error;

use crate::exit::{CommandError, Exit};
use crate::learning::LearningError;
use crate::model::ops;
use crate::weights::{WeightsError, WeightsFile};

/// Means and standard deviations that normalize images in `[-1, 1]`.
const SHIFT: [f32; 3] = [-0.030, -0.088, -0.188];
const SCALE: [f32; 3] = [0.458, 0.448, 0.450];

/// Smallest side of an image that the layers of AlexNet accept.
pub const LPIPS_LEAST_SIDE: usize = 31;

/// Added to the length of feature vectors, as in the release.
const EPSILON: f64 = 1e-10;

/// Convolution of AlexNet's features, possibly after max pooling.
///
/// The pooling has windows of 3 pixels and a stride of 2.
struct AlexNetLayer {
    /// Number in torchvision's parameter names.
    number: usize,
    /// Output channels, input channels, kernel size.
    shape: [usize; 3],
    stride: usize,
    padding: usize,
    pools: bool,
}

const LAYERS: [AlexNetLayer; 5] = [
    AlexNetLayer { number: 0, shape: [64, 3, 11], stride: 4, padding: 2, pools: false },
    AlexNetLayer { number: 3, shape: [192, 64, 5], stride: 1, padding: 2, pools: true },
    AlexNetLayer { number: 6, shape: [384, 192, 3], stride: 1, padding: 1, pools: true },
    AlexNetLayer { number: 8, shape: [256, 384, 3], stride: 1, padding: 1, pools: false },
    AlexNetLayer { number: 10, shape: [256, 256, 3], stride: 1, padding: 1, pools: false },
];

/// Reason why LPIPS cannot be computed with a file.
#[derive(Debug, Error)]
pub enum LpipsError {
    /// File that cannot be read.
    #[error("{0}")]
    File(#[from] WeightsError),
    /// File that is not there.
    #[error(
        "there is no file {file}\n  help: the guide (outputs, what an upload shows of images) says how to write one"
    )]
    NoFile {
        /// File as given.
        file: String,
    },
    /// Tensor that is not in the file.
    #[error(
        "{file}: tensor `{name}` is missing\n  help: a file for LPIPS has `features.N.weight` and `features.N.bias` of \
         torchvision's AlexNet and `linK.model.1.weight` of lpips"
    )]
    Missing {
        /// File as given.
        file: String,
        /// The tensor.
        name: String,
    },
    /// Tensor of another shape.
    #[error(
        "{file}: tensor `{name}` has shape {found:?}, not {expected:?}\n  help: LPIPS is that of AlexNet, net=\"alex\""
    )]
    Shape {
        /// File as given.
        file: String,
        /// The tensor.
        name: String,
        /// Shape of the tensor.
        found: Vec<usize>,
        /// Shape that AlexNet has.
        expected: Vec<usize>,
    },
}

impl CommandError for LpipsError {
    fn exit_code(&self) -> Exit {
        match self {
            LpipsError::NoFile { .. } => Exit::Usage,
            LpipsError::File(_) | LpipsError::Missing { .. } | LpipsError::Shape { .. } => {
                Exit::Inputs
            }
        }
    }
}

/// Weights of LPIPS, on the CPU.
#[derive(Clone, Debug)]
pub struct Lpips {
    /// Weight `(out, in, side, side)` and bias `(out,)` of every convolution.
    convolutions: Vec<(Tensor, Tensor)>,
    /// Weights of every convolution's channels in the distance.
    channels: Vec<Vec<f32>>,
}

impl Lpips {
    /// Reads the weights from a safetensors file, or another [file of weights](WeightsFile).
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or if tensors are missing or have another shape.
    pub fn open(path: &Path) -> Result<Lpips, LpipsError> {
        let file = path.display().to_string();
        if !path.is_file() {
            return Err(LpipsError::NoFile { file });
        }
        Lpips::from_file(&mut WeightsFile::open(path)?, &file)
    }

    fn from_file(weights: &mut WeightsFile<'_>, file: &str) -> Result<Lpips, LpipsError> {
        let mut read = |name: String, expected: &[usize]| {
            let Some(listed) = weights.listing().get(&name) else {
                return Err(LpipsError::Missing { file: file.to_owned(), name });
            };
            if listed.shape != expected {
                let (found, expected) = (listed.shape.clone(), expected.to_vec());
                return Err(LpipsError::Shape { file: file.to_owned(), name, found, expected });
            }
            Ok(weights.read(&name)?.values.to_vec())
        };
        let (mut convolutions, mut channels) = (Vec::new(), Vec::new());
        for (at, layer) in LAYERS.iter().enumerate() {
            let [outputs, inputs, side] = layer.shape;
            let shape = [outputs, inputs, side, side];
            let weight = read(format!("features.{}.weight", layer.number), &shape)?;
            let bias = read(format!("features.{}.bias", layer.number), &[outputs])?;
            channels.push(read(format!("lin{at}.model.1.weight"), &[1, outputs, 1, 1])?);
            let tensor = |values: Vec<f32>, shape: &[usize]| {
                Tensor::from_vec(values, shape, &Device::Cpu)
                    .expect("a file has as many values as its shapes say")
            };
            convolutions.push((tensor(weight, &shape), tensor(bias, &[outputs])));
        }
        Ok(Lpips { convolutions, channels })
    }

    /// Returns the distance of two images of `[channels, height, width]` in `[0, 1]`.
    ///
    /// A single channel is repeated three times; of more than three, the first three count. Images with a side below
    /// [`LPIPS_LEAST_SIDE`] are [enlarged](lpips_scale).
    ///
    /// # Errors
    /// Returns an error if the images are not of this shape.
    pub fn distance(
        &self,
        found: &[f32],
        original: &[f32],
        shape: [usize; 3],
    ) -> Result<f64, LearningError> {
        let [found, original] = [self.features(found, shape)?, self.features(original, shape)?];
        let mut distance = 0.0;
        for ((found, original), weights) in found.iter().zip(&original).zip(&self.channels) {
            let positions = found.chunks(weights.len()).zip(original.chunks(weights.len()));
            let sum: f64 = positions.map(|(a, b)| apart(a, b, weights)).sum();
            distance += sum / (found.len() / weights.len()) as f64;
        }
        Ok(distance)
    }

    /// Returns the features after every convolution; the channels of a position are adjacent.
    fn features(&self, image: &[f32], shape: [usize; 3]) -> Result<Vec<Vec<f32>>, LearningError> {
        let [_, height, width] = shape;
        let scale = lpips_scale(height, width);
        let (values, extents) = (input(image, shape, scale), (1, height * scale, width * scale, 3));
        let mut x = Tensor::from_vec(values, extents, &Device::Cpu)?;
        let mut taps = Vec::with_capacity(LAYERS.len());
        for (layer, (weight, bias)) in LAYERS.iter().zip(&self.convolutions) {
            if layer.pools {
                x = ops::max_pool(&x, 3, 2, 0)?;
            }
            x = ops::conv2d(&x, weight, layer.stride, layer.padding)?
                .broadcast_add(bias)?
                .relu()?;
            taps.push(x.flatten_all()?.to_vec1::<f32>()?);
        }
        Ok(taps)
    }
}

/// Returns the factor by which images of this size are enlarged for LPIPS, by repeating pixels.
///
/// It is 1 unless a side is below [`LPIPS_LEAST_SIDE`].
pub fn lpips_scale(height: usize, width: usize) -> usize {
    LPIPS_LEAST_SIDE.div_ceil(height.min(width).max(1))
}

/// Returns the normalized input of an image, `(height, width, 3)`, enlarged by a factor.
fn input(image: &[f32], [channels, height, width]: [usize; 3], scale: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(height * width * scale * scale * 3);
    for y in 0..height * scale {
        for x in 0..width * scale {
            let at = (y / scale) * width + x / scale;
            for channel in 0..3 {
                let own = if channels < 3 { 0 } else { channel };
                let value = 2.0 * image[own * height * width + at] - 1.0;
                values.push((value - SHIFT[channel]) / SCALE[channel]);
            }
        }
    }
    values
}

/// Returns the weighted squared distance of two feature vectors of unit length.
fn apart(found: &[f32], original: &[f32], weights: &[f32]) -> f64 {
    let length = |values: &[f32]| {
        values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt() + EPSILON
    };
    let lengths = [length(found), length(original)];
    let pairs = found.iter().zip(original).zip(weights);
    pairs
        .map(|((a, b), weight)| {
            let gap = f64::from(*a) / lengths[0] - f64::from(*b) / lengths[1];
            f64::from(*weight) * gap * gap
        })
        .sum()
}

#[cfg(test)]
mod tests;
