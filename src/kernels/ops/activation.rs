//! Activation between the layers of a perceptron.

use candle_core::{Result, Tensor};

use super::gelu::Gelu;
use super::pointwise;
use super::quick_gelu::QuickGelu;

/// Activation between the layers of a perceptron.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PerceptronActivation {
    /// [`gelu`](super::gelu()), as in the ViT, DeiT and DINO of timm and Hugging Face.
    #[default]
    Gelu,
    /// [`quick_gelu`](super::quick_gelu()), as in OpenAI's CLIP and in networks trained from it.
    QuickGelu,
}

impl PerceptronActivation {
    /// Applies the activation to every entry of `x` (any shape).
    ///
    /// # Errors
    /// Returns an error only if candle fails.
    pub fn of(self, x: &Tensor) -> Result<Tensor> {
        match self {
            PerceptronActivation::Gelu => pointwise::apply(Gelu, x),
            PerceptronActivation::QuickGelu => pointwise::apply(QuickGelu, x),
        }
    }

    /// Returns the activation of every entry of a tensor, without a graph, on any device.
    pub(super) fn composed_value(self, x: &Tensor) -> Result<Tensor> {
        match self {
            PerceptronActivation::Gelu => pointwise::composed_value(Gelu, x),
            PerceptronActivation::QuickGelu => pointwise::composed_value(QuickGelu, x),
        }
    }

    /// Returns the gradient of entries `x` from that of the result, on any device.
    pub(super) fn composed_gradient(self, x: &Tensor, g: &Tensor) -> Result<Tensor> {
        match self {
            PerceptronActivation::Gelu => pointwise::composed_gradient(Gelu, x, g),
            PerceptronActivation::QuickGelu => pointwise::composed_gradient(QuickGelu, x, g),
        }
    }

    /// Returns the activation of every value.
    pub(super) fn values(self, x: &[f32]) -> Vec<f32> {
        match self {
            PerceptronActivation::Gelu => pointwise::values(Gelu, x),
            PerceptronActivation::QuickGelu => pointwise::values(QuickGelu, x),
        }
    }

    /// Returns the gradient of every value `x` from that of the result.
    pub(super) fn slopes(self, x: &[f32], g: &[f32]) -> Vec<f32> {
        match self {
            PerceptronActivation::Gelu => pointwise::gradient(Gelu, x, g),
            PerceptronActivation::QuickGelu => pointwise::gradient(QuickGelu, x, g),
        }
    }
}
