//! Additions of a method to the frozen network: plain tensors, given to each forward pass.
//!
//! A method computes tensors (from `Var`s, prompt pools, generators ...) and puts them
//! here; the network never learns which method they come from.

use std::sync::Arc;

use candle_core::{D, Tensor};

use super::input_hook::{InputHook, LinearLayer};
use super::lora::LoraBlock;
use super::ops::{AdaptedLinear, Affine, LowRankPair, SampleGroups};
use super::{Adapter, Dropout, ModelError, PromptTokens};

/// Extra keys and values of one block's attention, seen by every query of the block.
///
/// They are not projected, not normalized, and have no position.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// Shape `(L, d)` for all samples, `(b, L, d)` per sample, or `(members, L, d)`.
    ///
    /// The last form needs [`Adaptation::groups`], which gives the member of each sample.
    pub keys: Tensor,
    /// Values, in the shape of `keys`.
    pub values: Tensor,
}

impl Prefix {
    /// Splits a prompt `(2 L, d)` (or `(.., 2 L, d)`) into keys, its first half, and values.
    ///
    /// # Errors
    /// Returns an error if the length is odd.
    pub fn halves(prompt: &Tensor) -> Result<Prefix, ModelError> {
        let length = prompt.dim(D::Minus2)?;
        if length % 2 != 0 {
            let reason = format!("a prefix prompt of length {length} has no two halves");
            return Err(ModelError::Input { reason });
        }
        let half = length / 2;
        Ok(Prefix {
            keys: prompt.narrow(D::Minus2, 0, half)?,
            values: prompt.narrow(D::Minus2, half, half)?,
        })
    }
}

/// Additions of a method to the network for one forward pass.
#[derive(Clone, Debug, Default)]
pub struct Adaptation {
    /// Prefixes by block; blocks beyond the end have none.
    pub prefix: Vec<Option<Prefix>>,
    /// True if prefixes are `(b, L, d)`, one per sample, even in a pack.
    pub per_sample: bool,
    /// Tokens between CLS and the patches.
    pub tokens: Option<PromptTokens>,
    /// Tokens `(b, n, d)` that join the input of a block unchanged, and stay in all later blocks.
    ///
    /// They are listed by block; blocks beyond the end get none. They come last, so that CLS stays token 0. As
    /// attention ignores the order of tokens, this equals putting them first.
    pub block_tokens: Vec<Option<Tensor>>,
    /// Adapters for blocks 0, 1, ...; blocks beyond the end have none.
    pub adapters: Vec<Adapter>,
    /// Low-rank pairs parallel to linear layers; by block, blocks beyond the end have none.
    pub loras: Vec<Option<LoraBlock>>,
    /// Dropout inside adapters, in training.
    pub dropout: Option<Dropout>,
    /// Assignment of samples to the members of a pack; `None` without a pack.
    pub groups: Option<SampleGroups>,
    /// Observer of the inputs of linear layers.
    pub hook: Option<Arc<dyn InputHook>>,
}

impl Adaptation {
    /// Returns the empty adaptation, which leaves the network unchanged.
    pub fn none() -> Adaptation {
        Adaptation::default()
    }

    /// Returns the adaptation with these prefixes, for blocks 0, 1, ....
    pub fn prefixes(prefixes: impl IntoIterator<Item = Prefix>) -> Adaptation {
        Adaptation { prefix: prefixes.into_iter().map(Some).collect(), ..Adaptation::none() }
    }

    /// Returns the adaptation for the samples of a pack.
    pub fn grouped(&self, groups: &SampleGroups) -> Adaptation {
        Adaptation { groups: Some(groups.clone()), ..self.clone() }
    }

    /// Returns the adaptation with [`Prefix::halves`] of these prompts, for blocks 0, 1, ....
    ///
    /// # Errors
    /// Returns an error if a prompt's length is odd.
    pub fn prompts<'a>(
        prompts: impl IntoIterator<Item = &'a Tensor>,
    ) -> Result<Adaptation, ModelError> {
        let prefixes = prompts.into_iter().map(Prefix::halves).collect::<Result<Vec<_>, _>>()?;
        Ok(Adaptation::prefixes(prefixes))
    }

    /// Returns the first block that differs from the plain network. Everything below it can be computed once per
    /// sample. `None` if nothing is adapted.
    pub fn first_adapted_block(&self) -> Option<usize> {
        let adapted = (!self.adapters.is_empty() || self.tokens.is_some()).then_some(0);
        let tokens = self.block_tokens.iter().position(Option::is_some);
        let prefix = self.prefix.iter().position(Option::is_some);
        let loras = self.loras.iter().position(Option::is_some);
        [adapted, tokens, prefix, loras].into_iter().flatten().min()
    }

    /// Returns true if this linear layer of a block has low-rank pairs.
    pub(super) fn has_pairs(&self, block: usize, layer: LinearLayer) -> bool {
        let lora = self.loras.get(block).and_then(Option::as_ref);
        lora.is_some_and(|lora| lora.pairs.keys().any(|place| place.layer() == layer))
    }

    /// Returns a linear layer of a block with its low-rank pairs.
    pub(super) fn adapted(
        &self,
        (block, at): (usize, LinearLayer),
        layer: &Affine,
    ) -> AdaptedLinear {
        let outputs = layer.bias.elem_count();
        let lora = self.loras.get(block).and_then(Option::as_ref);
        let pairs = lora
            .into_iter()
            .flat_map(|lora| lora.at(at, outputs))
            .map(|(pair, first)| LowRankPair { a: pair.a.clone(), b: pair.b.clone(), first });
        AdaptedLinear { pairs: pairs.collect(), layer: layer.clone() }
    }

    /// Returns the output of a linear layer, including its low-rank pairs.
    ///
    /// `plain` computes the layer from the input `x`, which the hook observes.
    pub(super) fn linear(
        &self,
        (block, layer): (usize, LinearLayer),
        x: &Tensor,
        plain: impl FnOnce(&Tensor) -> Result<Tensor, candle_core::Error>,
    ) -> Result<Tensor, candle_core::Error> {
        if let Some(hook) = &self.hook {
            hook.input(block, layer, x)?;
        }
        let y = plain(x)?;
        match self.loras.get(block).and_then(Option::as_ref) {
            Some(lora) => lora.added(layer, y, x, self.groups.as_ref()),
            None => Ok(y),
        }
    }

    /// Returns the input `(b, n, d)` of a block, with the tokens that join it there.
    pub(super) fn joined(&self, block: usize, input: &Tensor) -> Result<Tensor, ModelError> {
        let own = self.block_tokens.get(block).and_then(Option::as_ref);
        match own.filter(|own| own.elem_count() > 0) {
            None => Ok(input.clone()),
            Some(own) => Ok(Tensor::cat(&[input, &own.to_dtype(input.dtype())?], 1)?.contiguous()?),
        }
    }

    pub(super) fn has_adapter(&self, block: usize) -> bool {
        block < self.adapters.len()
    }

    /// Returns the output of a block's adapter for the residual stream `u`, if there is one.
    pub(super) fn adapter_output(
        &self,
        block: usize,
        u: &Tensor,
    ) -> Result<Option<Tensor>, candle_core::Error> {
        let adapter = self.adapters.get(block);
        let Some(adapter) = adapter else { return Ok(None) };
        adapter.forward(u, block, self.groups.as_ref(), self.dropout.as_ref()).map(Some)
    }

    /// Returns keys and values of a block's prefix, if it has one.
    pub(super) fn prefix_of(&self, block: usize) -> Option<(&Tensor, &Tensor)> {
        let prefix = self.prefix.get(block)?.as_ref()?;
        // A prefix of length 0 counts as none.
        (prefix.keys.elem_count() > 0).then_some((&prefix.keys, &prefix.values))
    }
}
