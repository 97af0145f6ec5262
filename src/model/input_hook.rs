//! Hook on the inputs of the linear layers of a transformer's blocks.
//!
//! It serves methods that need their second moments (RegMean, LoRM), and changes no output.

use std::fmt::Debug;

use candle_core::{Result, Tensor};

use super::VitConfig;

/// A linear layer of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinearLayer {
    /// Queries, keys and values together.
    Qkv,
    /// Behind attention.
    Proj,
    /// Input of the perceptron.
    Fc1,
    /// Out of it.
    Fc2,
}

impl LinearLayer {
    /// All of a block, in the order of a forward pass.
    pub const ALL: [LinearLayer; 4] =
        [LinearLayer::Qkv, LinearLayer::Proj, LinearLayer::Fc1, LinearLayer::Fc2];

    /// Returns the layer's name in a block, in timm's words.
    pub fn name(self) -> &'static str {
        match self {
            LinearLayer::Qkv => "attn.qkv",
            LinearLayer::Proj => "attn.proj",
            LinearLayer::Fc1 => "mlp.fc1",
            LinearLayer::Fc2 => "mlp.fc2",
        }
    }

    /// Returns the name of its weight among the parameters of a backbone.
    pub fn weight(self, block: usize) -> String {
        format!("blocks.{block}.{}.weight", self.name())
    }

    /// Width of what enters.
    pub fn inputs(self, vit: &VitConfig) -> usize {
        match self {
            LinearLayer::Fc2 => vit.mlp,
            LinearLayer::Qkv | LinearLayer::Proj | LinearLayer::Fc1 => vit.dim,
        }
    }

    /// Width of what comes out.
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
    /// `x` `(b, n, in)` enters a layer, with all tokens of all samples.
    ///
    /// # Errors
    /// What the device reports.
    fn input(&self, block: usize, layer: LinearLayer, x: &Tensor) -> Result<()>;
}
