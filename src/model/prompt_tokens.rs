//! Prompt tokens between CLS and the patches, which every block reads (L2P's shallow prompting).

use candle_core::{Device, Result, Tensor};
use clap::ValueEnum;

use crate::model::ops;
use crate::scenario::reader::Choice;

/// Tokens for every sample, their positions, and the pooling of their outputs.
#[derive(Clone, Debug)]
pub struct PromptTokens {
    /// Tokens `(b, n, d)`, with `n` at least 1.
    pub tokens: Tensor,
    /// Position embeddings of the tokens.
    pub position: PromptPosition,
    /// Tokens whose outputs are pooled to a feature.
    pub pooling: Pooling,
}

/// Position embeddings of prompt tokens.
#[derive(Clone, Debug)]
pub enum PromptPosition {
    /// All tokens have the position of CLS (the centralized port of L2P).
    ClsCopy,
    /// Tokens have no position embedding.
    None,
    /// Table `[offsets (n, d) ; positions]` in the order of tokens.
    ///
    /// CLS carries the first offset and the last prompt the position of CLS: an error of the reference code of the
    /// HGP benchmark.
    Misordered(Tensor),
}

impl PromptPosition {
    /// Returns the position embeddings on a device.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn at(&self, device: &Device) -> Result<PromptPosition> {
        Ok(match self {
            PromptPosition::Misordered(offsets) => {
                PromptPosition::Misordered(offsets.to_device(device)?)
            }
            other => other.clone(),
        })
    }
}

/// Outputs of the last block, after the final norm, that make a feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Pooling {
    /// CLS alone.
    #[default]
    Cls,
    /// The mean of CLS and the prompt tokens.
    ClsAndPrompts,
    /// The mean of the prompt tokens.
    Prompts,
}

impl PromptTokens {
    /// Returns the number of tokens.
    pub fn count(&self) -> Result<usize> {
        self.tokens.dim(1)
    }

    /// Inserts the tokens after CLS into `embedded` `(b, 1 + patches, d)`, which has its positions.
    ///
    /// `cls` `(1, d)` is CLS without a position and `positions` `(1 + patches, d)`.
    pub(super) fn insert(
        &self,
        embedded: &Tensor,
        cls: &Tensor,
        positions: &Tensor,
    ) -> Result<Tensor> {
        let ((batch, count, dim), dtype) = (self.tokens.dims3()?, embedded.dtype());
        let of_cls = positions.narrow(0, 0, 1)?;
        let patches = embedded.narrow(1, 1, embedded.dim(1)? - 1)?;
        let (first, tokens) = match &self.position {
            PromptPosition::None => (embedded.narrow(1, 0, 1)?, self.tokens.clone()),
            PromptPosition::ClsCopy => {
                (embedded.narrow(1, 0, 1)?, self.tokens.broadcast_add(&of_cls)?)
            }
            PromptPosition::Misordered(offsets) => {
                let first = (cls + offsets.narrow(0, 0, 1)?)?.unsqueeze(0)?;
                let shifted = Tensor::cat(&[offsets.narrow(0, 1, count - 1)?, of_cls], 0)?;
                (first.broadcast_as((batch, 1, dim))?, self.tokens.broadcast_add(&shifted)?)
            }
        };
        let parts = [first, tokens, patches];
        let parts = parts.iter().map(|part| part.to_dtype(dtype)?.contiguous());
        Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 1)?.contiguous()
    }

    /// Returns the number of the last block's outputs that a feature needs.
    pub(super) fn outputs(&self) -> Result<usize> {
        Ok(if self.pooling == Pooling::Cls { 1 } else { 1 + self.count()? })
    }

    /// Returns the feature `(b, d)` of the first outputs `(b, outputs, d)`.
    pub(super) fn pool(&self, outputs: &Tensor) -> Result<Tensor> {
        match self.pooling {
            Pooling::Cls => outputs.narrow(1, 0, 1)?.squeeze(1),
            Pooling::ClsAndPrompts => ops::mean(outputs, 1),
            Pooling::Prompts => ops::mean(&outputs.narrow(1, 1, outputs.dim(1)? - 1)?, 1),
        }
    }
}
