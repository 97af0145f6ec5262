//! Low-rank pairs parallel to linear layers of a transformer (LoRA, Hu et al. 2022).
//!
//! ```text
//! y = W x + b + B_0 (A_0 x) + B_1 (A_1 x) + ...        A (r, in), B (out, r); no factor alpha / r
//! ```
//! A pair may be at any linear layer of a block, or at the queries or values alone. Several pairs at one place are in
//! order: frozen ones of earlier tasks, then the one that trains. `B` starts at zero, and a pair with `B = 0` adds
//! exact zeros.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{D, Result, Tensor};
use clap::ValueEnum;

use super::input_hook::LinearLayer;
use super::ops::{self, SampleGroups};
use super::parameters::{Parameter, ParameterSet};
use super::{ModelError, VitConfig};
use crate::numerics::distributions::uniform;
use crate::numerics::streams::StreamKey;
use crate::scenario::reader::Choice;

/// Layer of a block to which a pair is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Choice)]
pub enum LoraPlace {
    /// Joint layer of queries, keys and values.
    Qkv,
    /// Queries only.
    Q,
    /// Values only.
    V,
    /// Projection after attention.
    Proj,
    /// First layer of the perceptron.
    Fc1,
    /// Second layer of the perceptron.
    Fc2,
}

impl LoraPlace {
    /// Returns the layer with the same input.
    pub fn layer(self) -> LinearLayer {
        match self {
            LoraPlace::Qkv | LoraPlace::Q | LoraPlace::V => LinearLayer::Qkv,
            LoraPlace::Proj => LinearLayer::Proj,
            LoraPlace::Fc1 => LinearLayer::Fc1,
            LoraPlace::Fc2 => LinearLayer::Fc2,
        }
    }

    /// Returns the place of a complete linear layer.
    pub fn at(layer: LinearLayer) -> LoraPlace {
        match layer {
            LinearLayer::Qkv => LoraPlace::Qkv,
            LinearLayer::Proj => LoraPlace::Proj,
            LinearLayer::Fc1 => LoraPlace::Fc1,
            LinearLayer::Fc2 => LoraPlace::Fc2,
        }
    }

    fn outputs(self, vit: &VitConfig) -> usize {
        match self {
            LoraPlace::Q | LoraPlace::V => vit.dim,
            _ => self.layer().outputs(vit),
        }
    }

    fn named(word: &str) -> Option<LoraPlace> {
        LoraPlace::value_variants().iter().find(|place| place.word() == word).copied()
    }
}

/// One of the two factors of a LoRA pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// Factor `A`, from the input down to the rank.
    A,
    /// Factor `B`, from the rank up to the output.
    B,
}

impl Factor {
    /// Returns the factor that a parameter name denotes, if any.
    pub fn of(name: &str) -> Option<Factor> {
        match name.strip_prefix(PREFIX)?.rsplit_once('.')?.1 {
            "a" => Some(Factor::A),
            "b" => Some(Factor::B),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Factor::A => "a",
            Factor::B => "b",
        }
    }
}

const PREFIX: &str = "lora.";

/// Returns true if a parameter of this name belongs to a LoRA pair.
pub fn is_lora(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Returns the name of a factor. Names sort in the order of blocks.
pub fn lora_name(block: usize, place: LoraPlace, factor: Factor) -> String {
    format!("{PREFIX}{block:02}.{}.{}", place.word(), factor.word())
}

/// Low-rank pair. In a pack, both factors have a leading axis of members, or neither.
#[derive(Clone, Debug)]
pub struct LoraPair {
    /// Factor `A`, `(r, in)`.
    pub a: Tensor,
    /// Factor `B`, `(out, r)`.
    pub b: Tensor,
}

impl LoraPair {
    /// Returns `B A x` for `x` `(b, n, in)`.
    fn forward(&self, x: &Tensor, groups: Option<&SampleGroups>) -> Result<Tensor> {
        let linear = |x: &Tensor, weight: &Tensor| match groups {
            None => ops::linear(x, weight, None),
            Some(groups) => ops::grouped_linear(x, weight, None, groups),
        };
        linear(&linear(x, &self.a)?, &self.b)
    }

    /// Returns the output width, `out`.
    fn outputs(&self) -> usize {
        self.b.dims().iter().rev().nth(1).copied().unwrap_or(0)
    }
}

/// All LoRA pairs of a block.
#[derive(Clone, Debug, Default)]
pub struct LoraBlock {
    /// Pairs by place; those of one place are added in order.
    pub pairs: BTreeMap<LoraPlace, Vec<LoraPair>>,
}

impl LoraBlock {
    /// Returns the pairs at a layer with `outputs` outputs, each with its first output column, in order.
    pub(super) fn at(
        &self,
        layer: LinearLayer,
        outputs: usize,
    ) -> impl Iterator<Item = (&LoraPair, usize)> {
        let places = self.pairs.iter().filter(move |(place, _)| place.layer() == layer);
        let pairs = places.flat_map(|(place, pairs)| pairs.iter().map(move |pair| (*place, pair)));
        pairs.map(move |(place, pair)| match place {
            LoraPlace::V => (pair, outputs.saturating_sub(pair.outputs())),
            _ => (pair, 0),
        })
    }

    /// Returns the output `y` of a layer plus the pairs' outputs for its input `x`.
    pub(super) fn added(
        &self,
        layer: LinearLayer,
        y: Tensor,
        x: &Tensor,
        groups: Option<&SampleGroups>,
    ) -> Result<Tensor> {
        let outputs = y.dim(D::Minus1)?;
        self.at(layer, outputs)
            .try_fold(y, |y, (pair, first)| ops::add_columns(&y, &pair.forward(x, groups)?, first))
    }
}

/// Shape of LoRA pairs in the first blocks of a transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraShape {
    /// Dimensions of the transformer.
    pub vit: VitConfig,
    /// Number of blocks with pairs, from the first on.
    pub blocks: usize,
    /// Places of pairs within a block.
    pub places: Vec<LoraPlace>,
    /// Rank `r`.
    pub rank: usize,
    /// Number of pairs at each place, one per task; `None` for a single pair without an axis of tasks.
    pub tasks: Option<usize>,
}

impl LoraShape {
    /// Returns names and shapes of all factors, `(r, in)` and `(out, r)`. An axis of tasks, if any, is in front.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let behind_tasks =
            |shape: [usize; 2]| self.tasks.into_iter().chain(shape).collect::<Vec<usize>>();
        let of_place = |block: usize, place: LoraPlace| {
            let (inputs, outputs) = (place.layer().inputs(&self.vit), place.outputs(&self.vit));
            [
                (lora_name(block, place, Factor::A), behind_tasks([self.rank, inputs])),
                (lora_name(block, place, Factor::B), behind_tasks([outputs, self.rank])),
            ]
        };
        let mut places = self.places.clone();
        places.sort();
        places.dedup();
        let of_block = |block| places.iter().flat_map(move |place| of_place(block, *place));
        (0..self.blocks.min(self.vit.depth)).flat_map(of_block).collect()
    }

    /// Returns initial values: `A` uniform in `±1/sqrt(in)`, `B` zero.
    ///
    /// `A` is Kaiming-uniform with a = sqrt 5. Every factor has its own stream.
    pub fn initial_parameters(&self, key: StreamKey) -> ParameterSet {
        let draw = |(name, shape): (String, Vec<usize>)| {
            let mut values = vec![0f32; shape.iter().product()];
            if Factor::of(&name) == Some(Factor::A) {
                let inputs = shape.last().copied().unwrap_or(1).max(1);
                let bound = 1.0 / (inputs as f64).sqrt();
                let mut rng = key.named(&name).rng();
                values.fill_with(|| uniform(&mut rng, -bound, bound) as f32);
            }
            (name, Parameter { shape, values: values.into() })
        };
        self.shapes().into_iter().map(draw).collect()
    }
}

/// Returns the pairs of some factors, by block; empty if there are none.
///
/// A factor comes with its single tensors in order ([`lora_pairs`]).
///
/// # Errors
/// Returns an error if a factor lacks its partner, or the two have different numbers of pairs.
pub fn loras_of(
    factors: impl IntoIterator<Item = (Arc<str>, Vec<Tensor>)>,
) -> std::result::Result<Vec<Option<LoraBlock>>, ModelError> {
    let input = |reason: String| ModelError::Input { reason };
    let mut factors: BTreeMap<Arc<str>, Vec<Tensor>> = factors.into_iter().collect();
    let mut blocks: Vec<Option<LoraBlock>> = Vec::new();
    while let Some((name, tensors)) = factors.pop_first() {
        let place = place_of(&name);
        let (block, place, factor) =
            place.ok_or_else(|| input(format!("`{name}` is no factor of a LoRA")))?;
        let partner = lora_name(block, place, Factor::B);
        let others = factors.remove(&*partner).filter(|_| factor == Factor::A);
        let others = others.ok_or_else(|| input(format!("`{name}` lacks its partner")))?;
        if tensors.len() != others.len() {
            let (own, others) = (tensors.len(), others.len());
            return Err(input(format!("`{name}` is of {own} pairs, `{partner}` of {others}")));
        }
        if blocks.len() <= block {
            blocks.resize(block + 1, None);
        }
        let pairs = tensors.into_iter().zip(others).map(|(a, b)| LoraPair { a, b }).collect();
        blocks[block].get_or_insert_default().pairs.insert(place, pairs);
    }
    Ok(blocks)
}

/// Splits a factor into the tensors of single pairs.
///
/// It has the shape of one pair, possibly after an axis of pairs and, in a pack, an axis of members before that.
///
/// # Errors
/// Returns an error if the device fails.
pub fn lora_pairs(factor: &Tensor, members: usize) -> std::result::Result<Vec<Tensor>, ModelError> {
    let axis = usize::from(members > 1);
    if factor.rank() <= axis + 2 {
        return Ok(vec![factor.clone()]);
    }
    let pair = |at| Ok(factor.narrow(axis, at, 1)?.squeeze(axis)?.contiguous()?);
    (0..factor.dim(axis)?).map(pair).collect()
}

fn place_of(name: &str) -> Option<(usize, LoraPlace, Factor)> {
    let (block, rest) = name.strip_prefix(PREFIX)?.split_once('.')?;
    let (place, _) = rest.rsplit_once('.')?;
    Some((block.parse().ok()?, LoraPlace::named(place)?, Factor::of(name)?))
}
