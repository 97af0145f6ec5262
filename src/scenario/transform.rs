//! `[data.train]` and `[data.test]`: resize, crop, flip, normalise, in this order.

use serde::Serialize;

/// What is done to one image.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransformSection {
    /// The shorter side becomes this many pixels. Default: unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resize: Option<u32>,
    /// Which part is cut out. Default `none`.
    pub crop: Crop,
    /// Pixels of both sides of the cut; required with a crop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Black pixels added at every border before a random crop. Default 0.
    pub padding: u32,
    /// Smallest and largest share of the area of a random resized crop. Default `[0.08, 1.0]`.
    pub scale: [f64; 2],
    /// Smallest and largest width/height of a random resized crop. Default `[0.75, 1.3333333333333333]`.
    pub ratio: [f64; 2],
    /// Probability of mirroring left and right. Default 0.
    pub flip: f64,
    /// How pixels are interpolated. Default `bicubic`; in `[data.test]` that of `[data.train]`.
    pub interpolation: Interpolation,
    /// What is subtracted and divided by. Default `half`; in `[data.test]` that of `[data.train]`.
    pub normalise: Normalise,
}

/// Which part of an image is cut out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crop {
    /// All of it.
    None,
    /// A random window of random area and shape, resized (torchvision's `RandomResizedCrop`).
    RandomResized,
    /// A random window.
    Random,
    /// The middle.
    Centre,
}

/// Which bicubic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interpolation {
    /// Pillow's, on bytes: what image loaders of most papers use.
    Bicubic,
    /// PyTorch's, without antialiasing.
    BicubicTorch,
    /// PyTorch's with `antialias=True`.
    BicubicAntialias,
}

/// `(value - mean) / std` per channel, of values in `[0, 1]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalise {
    /// Values stay in `[0, 1]`.
    None,
    /// Mean and std 0.5 (ViTs of the `augreg` family).
    Half,
    /// ImageNet's statistics.
    Imagenet,
    /// Those of CLIP's training set.
    Clip,
    /// Those of CIFAR-100's training split.
    Cifar,
    /// `{ mean = [..], std = [..] }`: one entry per channel, or one for all.
    #[serde(untagged)]
    Explicit {
        /// Means.
        mean: Vec<f64>,
        /// Deviations, positive.
        std: Vec<f64>,
    },
}
