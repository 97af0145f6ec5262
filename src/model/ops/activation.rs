//! The activation between the layers of a perceptron.

use candle_core::{Result, Tensor};

use super::{gelu, quick_gelu};
use crate::numerics::wide::wide;
pub use crate::scenario::Activation;

impl Activation {
    /// The activation of every entry of `x` (any shape).
    ///
    /// # Errors
    /// Only what candle itself reports.
    pub fn of(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Activation::Gelu => gelu::gelu(x),
            Activation::QuickGelu => quick_gelu::quick_gelu(x),
        }
    }

    /// That of every value, in a new vector.
    pub(super) fn values(self, x: &[f32]) -> Vec<f32> {
        match self {
            Activation::Gelu => wide(gelu::Values(x)),
            Activation::QuickGelu => wide(quick_gelu::Values(x)),
        }
    }

    /// The gradient of every value `x` from that of the result.
    pub(super) fn slopes(self, x: &[f32], g: &[f32]) -> Vec<f32> {
        match self {
            Activation::Gelu => wide(gelu::Slopes { x, g }),
            Activation::QuickGelu => wide(quick_gelu::Slopes { x, g }),
        }
    }
}
