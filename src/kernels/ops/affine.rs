//! Weight and bias of a layer, as networks hold them.

use candle_core::{Result, Tensor};

use super::groups::SampleGroups;
use super::layer_norm::layer_norm;
use super::linear::{grouped_linear_at, linear_at};
use super::matrix::Precision;
use super::storage::served;

/// Weight and bias of a linear layer or a layer norm.
#[derive(Clone, Debug)]
pub struct Affine {
    /// Weight: `(out, in)` of a linear layer, `(d)` of a norm.
    pub weight: Tensor,
    /// Bias: `(out)` or `(d)`.
    pub bias: Tensor,
    /// Precision of a linear layer's matrix products.
    pub precision: Precision,
}

impl Affine {
    /// Applies the linear layer to `x` `(b, .., in)`; `groups` are the members of a pack, if any.
    ///
    /// # Errors
    /// Returns an error if the shapes do not fit.
    pub fn linear(&self, x: &Tensor, groups: Option<&SampleGroups>) -> Result<Tensor> {
        match groups {
            None => linear_at(self.precision, x, &self.weight, Some(&self.bias)),
            Some(groups) => {
                let bias = Some(&self.bias);
                grouped_linear_at(self.precision, x, &self.weight, bias, groups)
            }
        }
    }

    /// Applies the layer norm to `x` `(.., d)`.
    ///
    /// # Errors
    /// Returns an error if the shapes do not fit.
    pub fn norm(&self, x: &Tensor, eps: f64) -> Result<Tensor> {
        layer_norm(x, &self.weight, &self.bias, eps)
    }

    /// Returns true if it never gets a gradient and our kernels can read it in place.
    pub(super) fn is_frozen(&self) -> bool {
        let of =
            |tensor: &Tensor| !tensor.track_op() && tensor.is_contiguous() && served(&[tensor]);
        of(&self.weight) && of(&self.bias)
    }
}
