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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::powder::shape::SlotShape;
    use crate::model::ParameterSet;
    use crate::numerics::distributions::fill_normal;
    use crate::numerics::streams::{Domain, StreamKey};
    use candle_core::Device;

    const SHAPE: SlotShape = SlotShape { blocks: 0..2, components: 3, length: 2, dim: 16, top: 3 };

    fn slots() -> Vec<ParameterSet> {
        let key = StreamKey::new(1, Domain::Method);
        (0..3).map(|slot| SHAPE.start(4, &[], key.client(slot))).collect()
    }

    /// Tokens of both blocks for four queries.
    fn tokens(sets: &[&ParameterSet]) -> Result<Vec<f32>, ModelError> {
        let mut queries = vec![0f32; 4 * SHAPE.dim];
        fill_normal(&mut StreamKey::new(2, Domain::Method).rng(), &mut queries);
        let queries = Tensor::from_vec(queries, (4, SHAPE.dim), &Device::Cpu)?;
        let all = sets.iter().flat_map(|set| set.iter());
        let pool = all.map(|(name, values)| Ok((name.clone(), values.tensor(&Device::Cpu)?)));
        let pool = pool.collect::<Result<PromptTensors, ModelError>>()?;
        let prompts = SlotPrompts { blocks: SHAPE.blocks, trains: true };
        let blocks = prompts.adapt(&pool, &queries)?.block_tokens;
        let values = |tokens: &Tensor| Ok(tokens.flatten_all()?.to_vec1::<f32>()?);
        Ok(blocks.iter().flatten().map(values).collect::<Result<Vec<_>, ModelError>>()?.concat())
    }

    /// Card, invariant 2: with `W` the identity a slot is one of CODA-Prompt, alone.
    #[test]
    fn a_slot_that_is_like_no_other_is_prompted_by_its_own_components() -> Result<(), ModelError> {
        let slots = slots();
        let all: Vec<&ParameterSet> = slots.iter().collect();
        let alone = tokens(&[&slots[1]])?;
        assert_eq!(alone.len(), 2 * 4 * SHAPE.length * SHAPE.dim);
        let mixed = |row: &[f64]| tokens(&[&slots[1], &SHAPE.mix(&[row], 1, &all)]);
        assert_eq!(mixed(&[0.0, 1.0, 0.0])?, alone);
        assert_ne!(mixed(&[0.5, 0.5, 0.0])?, alone);
        Ok(())
    }

    /// Card, invariant 4.
    #[test]
    fn only_the_slot_itself_trains() {
        let names = |shapes: Vec<(String, Vec<usize>)>| shapes.into_iter().map(|(name, _)| name);
        let trained =
            |trains, name: &str| SlotPrompts { blocks: SHAPE.blocks, trains }.trained(name, 3);
        assert!(names(SHAPE.own(4)).all(|name| trained(true, &name) == (0..3)));
        assert!(names(SHAPE.own(4)).all(|name| trained(false, &name).is_empty()));
        assert!(names(SHAPE.others()).all(|name| trained(true, &name).is_empty()));
    }
}
