//! Multiplications of one sample, from the parameters that train.
//!
//! ```text
//! forward    backbone + T (low-rank pairs, adapters) + prompts + module + head,   T tokens
//! backward   2 forward                                                  if the backbone trains
//!            blocks from the first adapted one, by their inputs,
//!            + 2 (pairs, adapters, prompts, module, head)               if something below the head does
//!            head                                                       else
//! ```
//! A frozen block only passes on the gradient of its inputs: a product with weights costs as much as in a forward pass,
//! a product of attention, both of whose factors have gradients, twice as much.

use std::collections::BTreeSet;

use super::ModelAdaptation;
use crate::methods::averaging::AveragedParameter;
use crate::model::{BackboneConfig, is_adapter, is_lora};
use crate::policy::{ModelFacts, SampleCost, kind_of};
use crate::wire::Kind;

/// Returns the multiplications of a sample in a task, in forward and backward pass and at inference.
///
/// `prompts` are the multiplications of prompts in a forward pass. Prompts that depend on a query add the pass for it at
/// inference.
pub fn with_prompts(
    adaptation: &(impl ModelAdaptation + ?Sized),
    model: &ModelFacts,
    task: usize,
    prompts: f64,
) -> SampleCost {
    let (backbone, mut sizes) = (&model.backbone, Sizes::default());
    let own: BTreeSet<String> =
        backbone.parameter_shapes().into_iter().map(|(name, _)| name).collect();
    adaptation.parameters(model).iter().for_each(|parameter| sizes.add(parameter, &own));
    let added = backbone.tokens() as f64 * sizes.per_token + prompts + sizes.module + sizes.head;
    let forward = backbone.multiplications() + added;
    let backward = match (sizes.whole, sizes.first_block) {
        (true, _) => 2.0 * forward,
        (false, Some(first)) => of_backward(backbone, first, added),
        (false, None) if sizes.module > 0.0 => 2.0 * added,
        (false, None) => added,
    };
    let asks_queries = adaptation.prompting(model, task, false).is_some();
    let queries = if asks_queries { backbone.multiplications() } else { 0.0 };
    SampleCost { forward, backward, inference: forward + queries, work: None }
}

/// Returns the multiplications of a prefix in a forward pass: one per token and number of its `rows`.
pub fn of_prefix(model: &ModelFacts, rows: usize) -> f64 {
    (model.backbone.tokens() * rows * model.backbone.dim()) as f64
}

/// Returns the multiplications of a backward pass through frozen blocks, from block `first` on.
///
/// `added` are the multiplications of a forward pass outside the backbone.
pub fn of_backward(backbone: &BackboneConfig, first: usize, added: f64) -> f64 {
    let (blocks, block) = (backbone.blocks(), backbone.block_cost(backbone.tokens()));
    blocks.saturating_sub(first) as f64 * (block.products + 2.0 * block.attention) + 2.0 * added
}

/// Numbers of weights, by their use in a forward pass.
#[derive(Default)]
struct Sizes {
    /// True if the backbone trains.
    whole: bool,
    /// First block that is adapted.
    first_block: Option<usize>,
    /// Weights that are multiplied with every token.
    per_token: f64,
    /// Weights between backbone and head.
    module: f64,
    head: f64,
}

impl Sizes {
    fn add(
        &mut self,
        AveragedParameter { name, shape, .. }: &AveragedParameter,
        own: &BTreeSet<String>,
    ) {
        let weights = if shape.len() < 2 { 0.0 } else { shape.iter().product::<usize>() as f64 };
        match kind_of(name) {
            Kind::Head => self.head += weights,
            Kind::Prompt => self.adapts(name),
            _ if is_lora(name) || is_adapter(name) => {
                self.adapts(name);
                self.per_token += weights;
            }
            _ if own.contains(name) => self.whole = true,
            _ => self.module += weights,
        }
    }

    /// Marks the block in a parameter's name as adapted; the first one if the name has none.
    fn adapts(&mut self, name: &str) {
        let block = name.split('.').find_map(|part| part.parse().ok()).unwrap_or(0);
        self.first_block = Some(self.first_block.map_or(block, |first| first.min(block)));
    }
}
