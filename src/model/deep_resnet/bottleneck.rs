//! The bottleneck block: three convolutions, and a shortcut around them.

use candle_core::{Result, Tensor};

use crate::model::frozen_weights::FrozenWeights;
use crate::model::ops::{self, BatchNormStatistics, ChannelAffine, ChannelMoments};
use crate::model::{DeviceSpec, ModelError};

/// Added to variances, as PyTorch's default.
const EPS: f64 = 1e-5;

/// A convolution without bias, and the batch norm behind it with its running statistics.
#[derive(Clone, Debug)]
pub(super) struct FrozenConvNorm {
    /// `(out, c, k, k)`; the window is padded by half of it.
    kernel: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: ChannelMoments,
    stride: usize,
}

impl FrozenConvNorm {
    /// Places the weights of two layers of these names.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn new(
        (weights, place): (&FrozenWeights, &DeviceSpec),
        convolution: &str,
        norm: &str,
        stride: usize,
    ) -> std::result::Result<FrozenConvNorm, ModelError> {
        let of_norm = |part: &str| weights.tensor(&format!("{norm}.{part}"), place);
        Ok(FrozenConvNorm {
            kernel: weights.tensor(&format!("{convolution}.weight"), place)?,
            weight: of_norm("weight")?,
            bias: of_norm("bias")?,
            running: ChannelMoments {
                mean: of_norm("running_mean")?,
                variance: of_norm("running_var")?,
                rows: 0,
            },
            stride,
        })
    }

    /// `x` `(b, h, w, c)` to `(b, h', w', out)`, with the shortcut added, and rectified if asked to.
    pub fn forward(&self, x: &Tensor, shortcut: Option<&Tensor>, rectify: bool) -> Result<Tensor> {
        let x = ops::conv2d(x, &self.kernel, self.stride, self.kernel.dim(3)? / 2)?;
        let affine = ChannelAffine { weight: &self.weight, bias: &self.bias, eps: EPS };
        ops::batch_norm(&x, affine, BatchNormStatistics::Running(&self.running), shortcut, rectify)
    }
}

/// Fewer channels, a window of three by three among them, and more channels again.
#[derive(Clone, Debug)]
pub(super) struct Bottleneck {
    pub first: FrozenConvNorm,
    pub second: FrozenConvNorm,
    pub third: FrozenConvNorm,
    /// Present where the shortcut has to change size.
    pub downsample: Option<FrozenConvNorm>,
}

impl Bottleneck {
    /// `x` `(b, h, w, c)` to `(b, h', w', out)`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.second.forward(&self.first.forward(x, None, true)?, None, true)?;
        match &self.downsample {
            None => self.third.forward(&hidden, Some(x), true),
            Some(unit) => self.third.forward(&hidden, Some(&unit.forward(x, None, false)?), true),
        }
    }
}
