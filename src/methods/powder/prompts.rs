//! Tokens of a slot: weighted sums of its components, mixed with those of similar slots.

use std::ops::Range;

use candle_core::Tensor;

use crate::learning::prompting::ComponentPart;
use crate::learning::{PromptTensors, Prompting};
use crate::model::{Adaptation, ModelError, prompts};

/// How much of the own components is in each mixture, `(top)`.
pub const OWN_SHARE: &str = "prompt.mix";
/// The same of token prompts, which are divided by the number of mixtures.
pub const OWN_TOKENS: &str = "prompt.mix_tokens";

/// Name of the part of the mixtures of a block that comes from other slots, `(top N, ..)`.
pub fn others_name(block: usize, part: ComponentPart) -> String {
    format!("{}.others", part.name(block))
}

/// Whether a parameter is a slot's own: one of its components, or its head.
pub fn is_own(name: &str) -> bool {
    !name.ends_with(".others") && !name.starts_with(OWN_SHARE)
}

/// The components that a slot uses, `K~_i = W_ig K_g + sum_(j != g) W_ij K_j` for its most similar slots `i`, and the
/// tokens that they give: `sum_c cos(q a_c, k_c) p_c`.
#[derive(Clone, Debug)]
pub struct SlotPrompts {
    /// Blocks whose input gets tokens.
    pub blocks: Range<usize>,
    /// Whether the own components train.
    pub trains: bool,
}

impl SlotPrompts {
    /// What is used of a part in a block: the own rows alone, or mixtures.
    fn mixed(
        &self,
        pool: &PromptTensors,
        block: usize,
        part: ComponentPart,
    ) -> Result<Tensor, ModelError> {
        let own = pool.get(&part.name(block))?;
        let Ok(others) = pool.get(&others_name(block, part)) else { return Ok(own.clone()) };
        let share = match part {
            ComponentPart::Prompt => pool.get(OWN_TOKENS)?,
            ComponentPart::Key | ComponentPart::Attention => pool.get(OWN_SHARE)?,
        };
        let count = share.dim(0)?;
        let flat = own.reshape((1, own.elem_count()))?;
        let shared = share.reshape((count, 1))?.broadcast_mul(&flat)?;
        Ok((shared.reshape(others.shape())? + others)?)
    }
}

impl Prompting for SlotPrompts {
    fn first_block(&self) -> usize {
        self.blocks.start
    }

    fn trained(&self, name: &str, rows: usize) -> Range<usize> {
        if self.trains && is_own(name) { 0..rows } else { 0..0 }
    }

    fn adapt(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Adaptation, ModelError> {
        let mut block_tokens = vec![None; self.blocks.end];
        for block in self.blocks.clone() {
            let components = self.mixed(pool, block, ComponentPart::Prompt)?;
            if components.elem_count() == 0 {
                continue;
            }
            let keys = self.mixed(pool, block, ComponentPart::Key)?;
            let attention = self.mixed(pool, block, ComponentPart::Attention)?;
            let weights = prompts::attended_cosines(queries, &keys, &attention)?;
            block_tokens[block] = Some(prompts::weighted(&weights, &components)?);
        }
        Ok(Adaptation { block_tokens, ..Adaptation::none() })
    }
}
