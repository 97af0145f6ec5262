//! Bottleneck block: three convolutions, and a shortcut around them.

use candle_core::{Result, Tensor};

use crate::model::frozen_weights::FrozenWeights;
use crate::model::ops::{self, BatchNormStatistics, ChannelAffine, ChannelMoments};
use crate::model::{DeviceSpec, ModelError};

/// Value added to variances, as in PyTorch by default.
const EPS: f64 = 1e-5;

/// Convolution without bias, followed by a batch norm with running statistics.
#[derive(Clone, Debug)]
pub(super) struct FrozenConvNorm {
    /// Kernel `(out, c, k, k)`; the padding is half of its size.
    kernel: Tensor,
    weight: Tensor,
    bias: Tensor,
    running: ChannelMoments,
    stride: usize,
}

impl FrozenConvNorm {
    /// Moves the weights of a convolution and a norm of these names to a device.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
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

    /// Returns `(b, h', w', out)` for `x` `(b, h, w, c)`. The shortcut is added, and the sum rectified if `rectify`.
    pub fn forward(&self, x: &Tensor, shortcut: Option<&Tensor>, rectify: bool) -> Result<Tensor> {
        let x = ops::conv2d(x, &self.kernel, self.stride, self.kernel.dim(3)? / 2)?;
        let affine = ChannelAffine { weight: &self.weight, bias: &self.bias, eps: EPS };
        ops::batch_norm(&x, affine, BatchNormStatistics::Running(&self.running), shortcut, rectify)
    }
}

/// Convolutions to fewer channels, of 3 x 3 among these, and to more channels again.
#[derive(Clone, Debug)]
pub(super) struct Bottleneck {
    pub first: FrozenConvNorm,
    pub second: FrozenConvNorm,
    pub third: FrozenConvNorm,
    /// Convolution of a shortcut that changes its size.
    pub downsample: Option<FrozenConvNorm>,
}

impl Bottleneck {
    /// Returns `(b, h', w', out)` for `x` `(b, h, w, c)`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.second.forward(&self.first.forward(x, None, true)?, None, true)?;
        match &self.downsample {
            None => self.third.forward(&hidden, Some(x), true),
            Some(unit) => self.third.forward(&hidden, Some(&unit.forward(x, None, false)?), true),
        }
    }
}
