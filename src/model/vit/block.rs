//! A pre-norm transformer block: attention and a two-layer perceptron, each with a residual.

use candle_core::{Result, Tensor};

use super::VitConfig;
use crate::model::ops::{self, Affine, Attended};
use crate::model::{Adaptation, LinearLayer};

#[derive(Clone, Debug)]
pub(super) struct TransformerBlock {
    pub norm1: Affine,
    pub qkv: Affine,
    pub proj: Affine,
    pub norm2: Affine,
    pub fc1: Affine,
    pub fc2: Affine,
}

impl TransformerBlock {
    /// Returns `(b, queries, d)` for `x` `(b, n, d)`: all tokens are keys, the first `queries` are outputs.
    ///
    /// Of `adaptation` it uses the parts for this `block`.
    pub(super) fn forward(
        &self,
        x: &Tensor,
        config: &VitConfig,
        (adaptation, block): (&Adaptation, usize),
        queries: usize,
    ) -> Result<Tensor> {
        let x = self.attention(x, config, (adaptation, block), queries)?;
        let changed = self.perceptron(&x, config, (adaptation, block))?;
        match adaptation.adapter_output(block, &x)? {
            Some(adapted) => changed + adapted,
            None => Ok(changed),
        }
    }

    /// Computes the attention half of the block.
    fn attention(
        &self,
        x: &Tensor,
        config: &VitConfig,
        (adaptation, block): (&Adaptation, usize),
        queries: usize,
    ) -> Result<Tensor> {
        let (prefix, groups) = (adaptation.prefix_of(block), adaptation.groups.as_ref());
        let (heads, members) = (config.heads, groups.filter(|_| !adaptation.per_sample));
        // The fused half does not expose the input of every layer, which a hook needs.
        if adaptation.hook.is_none() {
            let attended = Attended { heads, prefix, queries, members };
            if let Some(y) = self.attention_as_one(x, config, (adaptation, block), attended)? {
                return Ok(y);
            }
        }
        let packed = self.norm1.norm(x, config.norm_eps)?;
        let qkv = |x: &Tensor| self.qkv.linear(x, groups);
        let packed = adaptation.linear((block, LinearLayer::Qkv), &packed, qkv)?;
        let precision = self.qkv.precision;
        let mixed = match members {
            None => ops::attention_at(precision, &packed, heads, prefix, queries)?,
            Some(groups) => {
                ops::grouped_attention_at(precision, &packed, heads, prefix, queries, groups)?
            }
        };
        let proj = |x: &Tensor| self.proj.linear(x, groups);
        let mixed = adaptation.linear((block, LinearLayer::Proj), &mixed, proj)?;
        let x = if queries == x.dim(1)? { x.clone() } else { x.narrow(1, 0, queries)? };
        x + mixed
    }

    /// Computes the attention half as one operation; `None` if it has to be computed layer by layer.
    fn attention_as_one(
        &self,
        x: &Tensor,
        config: &VitConfig,
        (adaptation, block): (&Adaptation, usize),
        attended: Attended<'_>,
    ) -> Result<Option<Tensor>> {
        let (norm, eps, groups) = (&self.norm1, config.norm_eps, adaptation.groups.as_ref());
        let places = [(LinearLayer::Qkv, &self.qkv), (LinearLayer::Proj, &self.proj)];
        if !places.iter().any(|(at, _)| adaptation.has_pairs(block, *at)) {
            let layers = places.map(|(_, layer)| layer);
            let half = ops::frozen_attention(x, norm, eps, layers, attended, groups)?;
            if half.is_some() {
                return Ok(half);
            }
        }
        let layers = places.map(|(at, layer)| adaptation.adapted((block, at), layer));
        ops::trained_attention(x, norm, eps, layers, attended, groups)
    }

    /// Computes the perceptron half as one operation; `None` if it has to be computed layer by layer.
    fn perceptron_as_one(
        &self,
        x: &Tensor,
        config: &VitConfig,
        (adaptation, block): (&Adaptation, usize),
    ) -> Result<Option<Tensor>> {
        let (norm, eps, groups) = (&self.norm2, config.norm_eps, adaptation.groups.as_ref());
        let places = [(LinearLayer::Fc1, &self.fc1), (LinearLayer::Fc2, &self.fc2)];
        let activation = config.activation;
        if !places.iter().any(|(at, _)| adaptation.has_pairs(block, *at)) {
            let layers = places.map(|(_, layer)| layer);
            let half = ops::frozen_perceptron(x, norm, eps, layers, activation, groups)?;
            if half.is_some() {
                return Ok(half);
            }
        }
        let layers = places.map(|(at, layer)| adaptation.adapted((block, at), layer));
        ops::trained_perceptron(x, norm, eps, layers, activation, groups)
    }

    /// Computes the perceptron half of the block.
    fn perceptron(
        &self,
        x: &Tensor,
        config: &VitConfig,
        (adaptation, block): (&Adaptation, usize),
    ) -> Result<Tensor> {
        let groups = adaptation.groups.as_ref();
        // With an adapter the gradient of `x` is a sum of three terms, whose order the single operations determine.
        if adaptation.hook.is_none()
            && !adaptation.has_adapter(block)
            && let Some(y) = self.perceptron_as_one(x, config, (adaptation, block))?
        {
            return Ok(y);
        }
        let (fc1, fc2) =
            (|x: &Tensor| self.fc1.linear(x, groups), |x: &Tensor| self.fc2.linear(x, groups));
        let normed = self.norm2.norm(x, config.norm_eps)?;
        let hidden = adaptation.linear((block, LinearLayer::Fc1), &normed, fc1)?;
        x + adaptation.linear((block, LinearLayer::Fc2), &config.activation.of(&hidden)?, fc2)?
    }
}
