//! Hook on the inputs of the linear layers of a transformer's blocks.
//!
//! It serves methods that need second moments of these inputs (RegMean, LoRM), and changes no output.

use std::fmt::Debug;

use candle_core::{Result, Tensor};

use super::VitConfig;

/// Linear layer of a transformer's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinearLayer {
    /// Projection to queries, keys and values together.
    Qkv,
    /// Projection after attention.
    Proj,
    /// First layer of the perceptron.
    Fc1,
    /// Second layer of the perceptron.
    Fc2,
}

impl LinearLayer {
    /// All linear layers of a block, in the order of a forward pass.
    pub const ALL: [LinearLayer; 4] =
        [LinearLayer::Qkv, LinearLayer::Proj, LinearLayer::Fc1, LinearLayer::Fc2];

    /// Returns timm's name of the layer within a block.
    pub fn name(self) -> &'static str {
        match self {
            LinearLayer::Qkv => "attn.qkv",
            LinearLayer::Proj => "attn.proj",
            LinearLayer::Fc1 => "mlp.fc1",
            LinearLayer::Fc2 => "mlp.fc2",
        }
    }

    /// Returns the name of the layer's weight among the parameters of a backbone.
    pub fn weight(self, block: usize) -> String {
        format!("blocks.{block}.{}.weight", self.name())
    }

    /// Returns the width of the layer's input.
    pub fn inputs(self, vit: &VitConfig) -> usize {
        match self {
            LinearLayer::Fc2 => vit.mlp,
            LinearLayer::Qkv | LinearLayer::Proj | LinearLayer::Fc1 => vit.dim,
        }
    }

    /// Returns the width of the layer's output.
    pub fn outputs(self, vit: &VitConfig) -> usize {
        match self {
            LinearLayer::Qkv => 3 * vit.dim,
            LinearLayer::Fc1 => vit.mlp,
            LinearLayer::Proj | LinearLayer::Fc2 => vit.dim,
        }
    }
}

/// Observer of the inputs of linear layers.
pub trait InputHook: Debug + Send + Sync {
    /// Observes `x` `(b, n, in)`, the input of a layer, with all tokens of all samples.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    fn input(&self, block: usize, layer: LinearLayer, x: &Tensor) -> Result<()>;
}
