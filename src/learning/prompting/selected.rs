//! L2P's prompting (Wang et al., CVPR 2022): prompts whose keys are nearest to the query become tokens.

use std::ops::Range;

use candle_core::{DType, Tensor};

use super::{PromptTensors, Prompting};
use crate::model::{Adaptation, ModelError, Pooling, PromptPosition, PromptTokens, ops, prompts};

/// Name of the prompts, `(prompts, length, d)`.
pub const POOL: &str = "prompt.pool";
/// Name of their keys, `(prompts, d)`.
pub const KEYS: &str = "prompt.keys";

/// L2P's selection: the `top` prompts of a pool by the cosine of query and key, in falling order, as tokens.
///
/// The choice has no gradient, so keys move by the pull term alone; without it they do not train.
#[derive(Clone, Debug)]
pub struct SelectedPrompts {
    /// Number of prompts per image.
    pub top: usize,
    /// Tokens per prompt; with 0 there are none, and features are those of the backbone.
    pub length: usize,
    /// Weight `w` of the loss `- w mean_i sum_(k in top) cos(q_i, key_k)`.
    pub pull: f64,
    /// Position of the prompt tokens among the others.
    pub position: PromptPosition,
    /// Tokens whose outputs are pooled to a feature.
    pub pooling: Pooling,
}

impl Prompting for SelectedPrompts {
    fn first_block(&self) -> usize {
        0
    }

    fn trained(&self, name: &str, rows: usize) -> Range<usize> {
        if name == KEYS && self.pull == 0.0 { 0..0 } else { 0..rows }
    }

    fn adapt(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Adaptation, ModelError> {
        if self.length == 0 {
            return Ok(Adaptation::none());
        }
        let similar = prompts::cosines(&queries.detach(), &pool.get(KEYS)?.detach())?;
        let chosen = prompts::selection(&similar, self.top)?.concat();
        let pool = pool.get(POOL)?;
        let chosen = Tensor::from_vec(chosen, queries.dim(0)? * self.top, pool.device())?;
        let tokens = pool.index_select(&chosen, 0)?;
        let shape = (queries.dim(0)?, self.top * self.length, pool.dim(2)?);
        let tokens = PromptTokens {
            tokens: tokens.reshape(shape)?,
            position: self.position.at(pool.device())?,
            pooling: self.pooling,
        };
        Ok(Adaptation { tokens: Some(tokens), ..Adaptation::none() })
    }

    fn loss(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Option<Tensor>, ModelError> {
        if self.pull == 0.0 {
            return Ok(None);
        }
        let similar = prompts::cosines(queries, pool.get(KEYS)?)?;
        let (samples, count) = similar.dims2()?;
        let mut mask = vec![0f32; samples * count];
        for (row, chosen) in prompts::selection(&similar, self.top)?.iter().enumerate() {
            chosen.iter().for_each(|column| mask[row * count + *column as usize] = 1.0);
        }
        let mask = Tensor::from_vec(mask, (samples, count), similar.device())?;
        let pulled = ops::sum_all(&(similar.to_dtype(DType::F32)? * mask)?)?;
        Ok(Some((pulled * (-self.pull / samples as f64))?))
    }
}
