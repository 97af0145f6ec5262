//! The basic residual block: two convolutions, and a shortcut around them.

use candle_core::{Result, Tensor};

use crate::model::norm::Norm;
use crate::model::ops;

/// A convolution and its batch norm.
#[derive(Clone, Debug)]
pub(super) struct ConvNorm {
    /// `(out, c, k, k)`; a window of 3 is padded by 1.
    pub weight: Tensor,
    pub norm: Norm,
    pub stride: usize,
}

impl ConvNorm {
    /// `x` `(b, h, w, c)` to `(b, h', w', out)`.
    pub fn forward(&self, x: &Tensor, shortcut: Option<&Tensor>, rectify: bool) -> Result<Tensor> {
        let padding = self.weight.dim(3)? / 2;
        let x = ops::conv2d(x, &self.weight, self.stride, padding)?;
        self.norm.forward(&x, shortcut, rectify)
    }
}

#[derive(Clone, Debug)]
pub(super) struct ResidualBlock {
    pub first: ConvNorm,
    pub second: ConvNorm,
    /// Convolution of a shortcut that has to change size.
    pub downsample: Option<ConvNorm>,
}

impl ResidualBlock {
    /// `x` `(b, h, w, c)` to `(b, h', w', out)`.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.first.forward(x, None, true)?;
        match &self.downsample {
            None => self.second.forward(&hidden, Some(x), true),
            Some(unit) => self.second.forward(&hidden, Some(&unit.forward(x, None, false)?), true),
        }
    }
}
