//! CODA-Prompt's prompting (Smith et al., CVPR 2023): a prefix is the sum of components, each weighted by the
//! cosine of its key and the query seen through its attention.

use std::ops::Range;

use candle_core::Tensor;

use super::{PromptTensors, Prompting};
use crate::model::{Adaptation, ModelError, Prefix, ops, prompts};

/// Part of a component in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentPart {
    /// Attention `a` `(components, d)`, which weights the entries of the query.
    Attention,
    /// Prompts `p` `(components, L, d)`: rows of the prefix, the first half keys.
    Prompt,
    /// Keys `k` `(components, d)`.
    Key,
}

impl ComponentPart {
    /// All parts, in the order of their parameter names.
    pub const ALL: [ComponentPart; 3] =
        [ComponentPart::Attention, ComponentPart::Prompt, ComponentPart::Key];

    /// Returns the name of this part's parameter in a block.
    pub fn name(self, block: usize) -> String {
        let part = match self {
            ComponentPart::Attention => "attention",
            ComponentPart::Prompt => "component",
            ComponentPart::Key => "key",
        };
        format!("prompt.{block:02}.{part}")
    }
}

/// CODA-Prompt's components, of which those of the current task train.
#[derive(Clone, Debug)]
pub struct Components {
    /// Blocks that get a prefix.
    pub blocks: Range<usize>,
    /// Number of components in use, from 0 on: those of the tasks so far.
    pub used: usize,
    /// Components that train; empty if none do.
    pub trained: Range<usize>,
    /// Weight `mu` of the orthogonality penalty over the components in use.
    pub penalty: f64,
    /// True if a softmax over its entries is applied to the attention (Fed-CPrompt).
    pub softmax: bool,
}

impl Components {
    /// Returns the rows of a parameter that are in use.
    fn rows(
        &self,
        pool: &PromptTensors,
        part: ComponentPart,
        block: usize,
    ) -> Result<Tensor, ModelError> {
        Ok(pool.get(&part.name(block))?.narrow(0, 0, self.used)?)
    }

    /// Returns the weights `(b, used)` of the components of a block.
    pub(super) fn weights(
        &self,
        pool: &PromptTensors,
        block: usize,
        queries: &Tensor,
    ) -> Result<Tensor, ModelError> {
        let mut attention = self.rows(pool, ComponentPart::Attention, block)?;
        if self.softmax {
            attention = ops::softmax(&attention)?;
        }
        let keys = self.rows(pool, ComponentPart::Key, block)?;
        Ok(prompts::attended_cosines(queries, &keys, &attention)?)
    }

    /// Returns the prompt `(b, L, d)` of a block.
    pub(super) fn prompt(
        &self,
        pool: &PromptTensors,
        block: usize,
        queries: &Tensor,
    ) -> Result<Tensor, ModelError> {
        let weights = self.weights(pool, block, queries)?;
        Ok(prompts::weighted(&weights, &self.rows(pool, ComponentPart::Prompt, block)?)?)
    }
}

impl Prompting for Components {
    fn first_block(&self) -> usize {
        self.blocks.start
    }

    fn trained(&self, _name: &str, _rows: usize) -> Range<usize> {
        self.trained.clone()
    }

    fn adapt(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Adaptation, ModelError> {
        let mut prefix = vec![None; self.blocks.end];
        for block in self.blocks.clone().filter(|_| self.used > 0) {
            prefix[block] = Some(Prefix::halves(&self.prompt(pool, block, queries)?)?);
        }
        Ok(Adaptation { prefix, ..Adaptation::none() })
    }

    /// Returns the orthogonality penalty.
    ///
    /// It is `mu` times the sum, over blocks and parts, of the mean square of `rows rows^T - I`.
    fn loss(&self, pool: &PromptTensors, _queries: &Tensor) -> Result<Option<Tensor>, ModelError> {
        if self.penalty == 0.0 {
            return Ok(None);
        }
        let mut sum: Option<Tensor> = None;
        for block in self.blocks.clone() {
            for part in ComponentPart::ALL {
                let penalty = prompts::orthogonality(&self.rows(pool, part, block)?)?;
                sum = Some(match sum {
                    None => penalty,
                    Some(sum) => (sum + penalty)?,
                });
            }
        }
        Ok(sum.map(|sum| sum * self.penalty).transpose()?)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn rows(count: usize, shift: f32) -> Tensor {
        let values: Vec<f32> = (0..count * 8).map(|i| (i as f32 * 0.7 + shift).sin()).collect();
        Tensor::from_vec(values, (count, 8), &Device::Cpu).unwrap()
    }

    /// Scores of three queries where attention is moved by a constant.
    fn scores(softmax: bool, constant: f64) -> Vec<f32> {
        let attention = (rows(4, 1.0) + constant).unwrap();
        let pool: PromptTensors =
            [(ComponentPart::Attention, attention), (ComponentPart::Key, rows(4, 2.0))]
                .map(|(part, tensor)| (part.name(0), tensor))
                .into_iter()
                .collect();
        let all = Components { blocks: 0..1, used: 4, trained: 0..0, penalty: 0.0, softmax };
        let weights = all.weights(&pool, 0, &(rows(3, 0.0) * 9.0).unwrap()).unwrap();
        weights.flatten_all().unwrap().to_vec1().unwrap()
    }

    /// Invariant 5 of Fed-CPrompt's card.
    #[test]
    fn a_softmax_does_not_see_what_all_entries_share() {
        let off = |softmax: bool| -> f32 {
            let pairs = scores(softmax, 0.0).into_iter().zip(scores(softmax, 3.0));
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        assert!(off(true) < 1e-6 && off(false) > 0.1);
        for score in [scores(true, 0.0), scores(false, 0.0)].concat() {
            assert!((-1.0..=1.0).contains(&score));
        }
    }

    #[test]
    fn the_penalty_is_weighted_and_of_all_parts_of_all_blocks() {
        let loss = |penalty: f64, blocks: Range<usize>| -> Option<f32> {
            let named = blocks.clone().flat_map(|block| {
                let shift = block as f32;
                let prompt = rows(4, shift + 0.5).reshape((4, 2, 4)).unwrap();
                let parts = [rows(4, shift + 1.0), prompt, rows(4, shift + 2.0)];
                ComponentPart::ALL.map(|part| part.name(block)).into_iter().zip(parts)
            });
            let pool: PromptTensors = named.collect();
            let all = Components { blocks, used: 4, trained: 0..0, penalty, softmax: false };
            let loss = all.loss(&pool, &rows(1, 0.0)).unwrap();
            loss.map(|loss| loss.to_scalar().unwrap())
        };
        let [one, other, both] = [0..1, 1..2, 0..2].map(|blocks| loss(1.0, blocks).unwrap());
        assert!(one > 0.1 && other > 0.1 && (one + other - both).abs() < 1e-5 * both);
        assert!((loss(4.0, 0..2).unwrap() - 4.0 * both).abs() < 1e-5 * both);
        assert_eq!(loss(0.0, 0..2), None);
    }
}
