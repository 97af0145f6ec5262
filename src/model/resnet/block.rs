//! Basic residual block: two convolutions, and a shortcut around them.

use candle_core::{Result, Tensor};

use crate::model::norm::{Norm, NormInput};
use crate::model::ops;

/// Collected inputs of batch norms, if they are requested.
pub(super) type Taps<'a> = Option<&'a mut Vec<NormInput>>;

/// Convolution and its batch norm.
#[derive(Clone, Debug)]
pub(super) struct ConvNorm {
    /// Weight `(out, c, k, k)`; a 3 x 3 kernel is padded by 1.
    pub weight: Tensor,
    pub norm: Norm,
    pub stride: usize,
}

impl ConvNorm {
    /// Returns `(b, h', w', out)` for `x` `(b, h, w, c)`.
    pub fn forward(
        &self,
        x: &Tensor,
        shortcut: Option<&Tensor>,
        rectify: bool,
        taps: Taps<'_>,
    ) -> Result<Tensor> {
        let padding = self.weight.dim(3)? / 2;
        // The fused operation of both layers does not expose the norm's input, which a tap needs.
        if taps.is_none() && self.norm.trains {
            let layers = ops::ConvNormLayers {
                weight: &self.weight,
                stride: self.stride,
                padding,
                affine: self.norm.affine(),
            };
            if let Some((y, moments)) = ops::conv_norm(x, layers, shortcut, rectify)? {
                self.norm.update(&moments)?;
                return Ok(y);
            }
        }
        let x = ops::conv2d(x, &self.weight, self.stride, padding)?;
        if let Some(taps) = taps {
            taps.push(self.norm.seen(&x));
        }
        self.norm.forward(&x, shortcut, rectify)
    }
}

#[derive(Clone, Debug)]
pub(super) struct ResidualBlock {
    pub first: ConvNorm,
    pub second: ConvNorm,
    /// Convolution of a shortcut that changes its size.
    pub downsample: Option<ConvNorm>,
}

impl ResidualBlock {
    /// Returns `(b, h', w', out)` for `x` `(b, h, w, c)`.
    pub fn forward(&self, x: &Tensor, mut taps: Taps<'_>) -> Result<Tensor> {
        let hidden = self.first.forward(x, None, true, taps.as_deref_mut())?;
        let Some(unit) = &self.downsample else {
            return self.second.forward(&hidden, Some(x), true, taps);
        };
        let shortcut = unit.forward(x, None, false, taps.as_deref_mut())?;
        self.second.forward(&hidden, Some(&shortcut), true, taps)
    }
}
