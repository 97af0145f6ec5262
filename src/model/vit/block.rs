//! A pre-norm transformer block: attention and a two-layer perceptron, each with a residual.

use candle_core::{Result, Tensor};

use super::VitConfig;
use crate::model::ops::{self, Groups, Precision};
use crate::model::{Adaptation, LinearLayer};

/// Weight and bias of a linear layer or a layer norm.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    pub weight: Tensor,
    pub bias: Tensor,
    /// Of a linear layer's products.
    pub precision: Precision,
}

impl Affine {
    /// `groups` are the members of a pack, where there is one.
    pub(super) fn linear(&self, x: &Tensor, groups: Option<&Groups>) -> Result<Tensor> {
        match groups {
            None => ops::linear_at(self.precision, x, &self.weight, Some(&self.bias)),
            Some(groups) => {
                let bias = Some(&self.bias);
                ops::grouped_linear_at(self.precision, x, &self.weight, bias, groups)
            }
        }
    }

    pub(super) fn norm(&self, x: &Tensor, eps: f64) -> Result<Tensor> {
        ops::layer_norm(x, &self.weight, &self.bias, eps)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub norm1: Affine,
    pub qkv: Affine,
    pub proj: Affine,
    pub norm2: Affine,
    pub fc1: Affine,
    pub fc2: Affine,
}

impl Block {
    /// `x` `(b, n, d)` to `(b, queries, d)`: every token is attended to, the first `queries`
    /// go on. Of `adaptation` it takes what belongs to this `block`.
    pub(super) fn forward(
        &self,
        x: &Tensor,
        config: &VitConfig,
        (adaptation, block): (&Adaptation, usize),
        queries: usize,
    ) -> Result<Tensor> {
        let (prefix, groups) = (adaptation.prefix_of(block), adaptation.groups.as_ref());
        let linear = |layer: LinearLayer, own: &Affine, x: &Tensor| {
            adaptation.linear((block, layer), x, |x| own.linear(x, groups))
        };
        let packed = linear(LinearLayer::Qkv, &self.qkv, &self.norm1.norm(x, config.norm_eps)?)?;
        let (precision, heads) = (self.qkv.precision, config.heads);
        let mixed = match groups.filter(|_| !adaptation.per_sample) {
            None => ops::attention_at(precision, &packed, heads, prefix, queries)?,
            Some(groups) => {
                ops::grouped_attention_at(precision, &packed, heads, prefix, queries, groups)?
            }
        };
        let mixed = linear(LinearLayer::Proj, &self.proj, &mixed)?;
        let x = if queries == x.dim(1)? { x.clone() } else { x.narrow(1, 0, queries)? };
        let x = (x + mixed)?;
        let hidden = linear(LinearLayer::Fc1, &self.fc1, &self.norm2.norm(&x, config.norm_eps)?)?;
        let changed = (&x + linear(LinearLayer::Fc2, &self.fc2, &ops::gelu(&hidden)?)?)?;
        match adaptation.adapter_output(block, &x)? {
            Some(adapted) => changed + adapted,
            None => Ok(changed),
        }
    }
}
