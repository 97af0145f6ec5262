//! Tokens of a client task: weighted sums of its components, mixed with those of similar client tasks.

use std::ops::Range;

use candle_core::Tensor;

use super::shape::ClientTaskForm;
use crate::learning::prompting::ComponentPart;
use crate::learning::{PromptTensors, Prompting};
use crate::model::{Adaptation, ModelError, Prefix, prompts};

/// Name of the parameter with the weights of own components in each mixture, `(top)`.
pub const OWN_SHARE: &str = "prompt.mix";
/// Name of the parameter with the weights of own prompts, divided by the number of mixtures, `(top)`.
pub const OWN_TOKENS: &str = "prompt.mix_tokens";

/// Returns the parameter name of the contribution of other client tasks to a block's mixtures.
///
/// Its shape is `(top N, ..)` for `N` components.
pub fn others_name(block: usize, part: ComponentPart) -> String {
    format!("{}.others", part.name(block))
}

/// Returns true if a parameter belongs to a client task alone: one of its components, or its head.
pub fn is_own(name: &str) -> bool {
    !name.ends_with(".others") && !name.starts_with(OWN_SHARE)
}

/// Prompts of a client task: its components mixed with those of similar client tasks, and their tokens.
///
/// The components are `K~_i = W_ig K_g + sum_(j != g) W_ij K_j` for its most similar client tasks `i`, the tokens
/// `sum_c cos(q a_c, k_c) p_c`.
#[derive(Clone, Debug)]
pub struct ClientTaskPrompts {
    /// Blocks whose input gets tokens.
    pub blocks: Range<usize>,
    /// True if the client task's own components train.
    pub trains: bool,
    /// Form of the components.
    pub form: ClientTaskForm,
}

impl ClientTaskPrompts {
    /// Returns keys, attention or prompts of a block: own rows alone, or mixtures with those of others.
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
        if self.form == ClientTaskForm::Prefixes {
            let own = own.broadcast_mul(share)?;
            // The first client task of a run may have no others.
            return Ok(match others.elem_count() {
                0 => own,
                _ => Tensor::cat(&[&own, others], 0)?,
            });
        }
        let count = share.dim(0)?;
        let flat = own.reshape((1, own.elem_count()))?;
        let shared = share.reshape((count, 1))?.broadcast_mul(&flat)?;
        Ok((shared.reshape(others.shape())? + others)?)
    }
}

impl Prompting for ClientTaskPrompts {
    fn first_block(&self) -> usize {
        self.blocks.start
    }

    fn trained(&self, name: &str, rows: usize) -> Range<usize> {
        if self.trains && is_own(name) { 0..rows } else { 0..0 }
    }

    fn adapt(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Adaptation, ModelError> {
        let mut prompted = vec![None; self.blocks.end];
        for block in self.blocks.clone() {
            if pool.get(&ComponentPart::Prompt.name(block))?.elem_count() == 0 {
                continue;
            }
            let components = self.mixed(pool, block, ComponentPart::Prompt)?;
            let keys = self.mixed(pool, block, ComponentPart::Key)?;
            let attention = self.mixed(pool, block, ComponentPart::Attention)?;
            let weights = prompts::attended_cosines(queries, &keys, &attention)?;
            prompted[block] = Some(prompts::weighted(&weights, &components)?);
        }
        let halves = |prompt: &Option<Tensor>| prompt.as_ref().map(Prefix::halves).transpose();
        Ok(match self.form {
            ClientTaskForm::Tokens => Adaptation { block_tokens: prompted, ..Adaptation::none() },
            ClientTaskForm::Prefixes => {
                let prefix = prompted.iter().map(halves).collect::<Result<_, _>>()?;
                Adaptation { prefix, ..Adaptation::none() }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::powder::shape::ClientTaskShape;
    use crate::model::ParameterSet;
    use crate::numerics::distributions::fill_normal;
    use crate::numerics::streams::{Domain, StreamKey};
    use candle_core::Device;

    const FORM: ClientTaskForm = ClientTaskForm::Tokens;
    const SHAPE: ClientTaskShape =
        ClientTaskShape { blocks: 0..2, components: 3, length: 2, dim: 16, top: 3, form: FORM };

    fn client_tasks() -> Vec<ParameterSet> {
        let key = StreamKey::new(1, Domain::Method);
        (0..3).map(|client_task| SHAPE.start(4, &[], key.client(client_task))).collect()
    }

    /// Tokens of both blocks for four queries.
    fn tokens(sets: &[&ParameterSet]) -> Result<Vec<f32>, ModelError> {
        let mut queries = vec![0f32; 4 * SHAPE.dim];
        fill_normal(&mut StreamKey::new(2, Domain::Method).rng(), &mut queries);
        let queries = Tensor::from_vec(queries, (4, SHAPE.dim), &Device::Cpu)?;
        let all = sets.iter().flat_map(|set| set.iter());
        let pool = all.map(|(name, values)| Ok((name.clone(), values.tensor(&Device::Cpu)?)));
        let pool = pool.collect::<Result<PromptTensors, ModelError>>()?;
        let prompts = ClientTaskPrompts { blocks: SHAPE.blocks, trains: true, form: FORM };
        let blocks = prompts.adapt(&pool, &queries)?.block_tokens;
        let values = |tokens: &Tensor| Ok(tokens.flatten_all()?.to_vec1::<f32>()?);
        Ok(blocks.iter().flatten().map(values).collect::<Result<Vec<_>, ModelError>>()?.concat())
    }

    /// Card, invariant 2: with `W` the identity a client task is one of CODA-Prompt, alone.
    #[test]
    fn dissimilar_client_task_uses_only_its_own_components() -> Result<(), ModelError> {
        let client_tasks = client_tasks();
        let all: Vec<&ParameterSet> = client_tasks.iter().collect();
        let alone = tokens(&[&client_tasks[1]])?;
        assert_eq!(alone.len(), 2 * 4 * SHAPE.length * SHAPE.dim);
        let mixed = |row: &[f64]| tokens(&[&client_tasks[1], &SHAPE.mix(&[row], 1, &all)]);
        assert_eq!(mixed(&[0.0, 1.0, 0.0])?, alone);
        assert_ne!(mixed(&[0.5, 0.5, 0.0])?, alone);
        Ok(())
    }

    /// Equal client tasks with shares that sum to one give that client task.
    ///
    /// This holds for any shares and number of mixtures.
    #[test]
    fn mixtures_of_equal_client_tasks_are_that_client_task() -> Result<(), ModelError> {
        let client_tasks = client_tasks();
        let (own, alone) = (&client_tasks[1], tokens(&[&client_tasks[1]])?);
        let all = [own; 3];
        let near = |sets: &[&ParameterSet]| -> Result<bool, ModelError> {
            Ok(tokens(sets)?.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-4))
        };
        assert!(near(&[own, &SHAPE.mix(&[&[0.25, 0.75, 0.0]], 1, &all)])?);
        assert!(near(&[own, &SHAPE.mix(&[&[0.25, 0.75, 0.0], &[0.4, 0.2, 0.4]], 1, &all)])?);
        assert!(!near(&[own, &SHAPE.mix(&[&[0.25, 0.5, 0.0]], 1, &all)])?);
        Ok(())
    }

    /// Card, invariant 4.
    #[test]
    fn only_the_client_task_itself_trains() {
        let names = |shapes: Vec<(String, Vec<usize>)>| shapes.into_iter().map(|(name, _)| name);
        let trained = |trains, name: &str| {
            ClientTaskPrompts { blocks: SHAPE.blocks, trains, form: FORM }.trained(name, 3)
        };
        assert!(names(SHAPE.own(4)).all(|name| trained(true, &name) == (0..3)));
        assert!(names(SHAPE.own(4)).all(|name| trained(false, &name).is_empty()));
        assert!(names(SHAPE.others()).all(|name| trained(true, &name).is_empty()));
    }

    /// Fed-CODAP: the prefix of a client task among three is a third of what all components side by side give.
    #[test]
    fn prefixes_are_those_of_all_client_tasks_side_by_side() -> Result<(), ModelError> {
        let shape = ClientTaskShape { form: ClientTaskForm::Prefixes, top: 1, ..SHAPE };
        let client_tasks = client_tasks();
        let all: Vec<&ParameterSet> = client_tasks.iter().collect();
        let mut queries = vec![0f32; 4 * SHAPE.dim];
        fill_normal(&mut StreamKey::new(2, Domain::Method).rng(), &mut queries);
        let queries = Tensor::from_vec(queries, (4, SHAPE.dim), &Device::Cpu)?;
        let pool = |sets: &[&ParameterSet]| -> Result<PromptTensors, ModelError> {
            let all = sets.iter().flat_map(|set| set.iter());
            all.map(|(name, values)| Ok((name.clone(), values.tensor(&Device::Cpu)?))).collect()
        };
        let prefixes = |sets: &[&ParameterSet]| -> Result<Vec<Tensor>, ModelError> {
            let form = ClientTaskForm::Prefixes;
            let prompts = ClientTaskPrompts { blocks: SHAPE.blocks, trains: true, form };
            let found = prompts.adapt(&pool(sets)?, &queries)?;
            assert!(found.block_tokens.is_empty());
            Ok(found.prefix.into_iter().flatten().map(|prefix| prefix.keys).collect())
        };
        let third = 1.0 / 3.0;
        let combined = prefixes(&[&client_tasks[1], &shape.mix(&[&[third; 3]], 1, &all)])?;
        let alone = client_tasks
            .iter()
            .map(|client_task| prefixes(&[client_task]))
            .collect::<Result<Vec<_>, _>>()?;
        for (block, found) in combined.iter().enumerate() {
            let sum = ((&alone[0][block] + &alone[1][block])? + &alone[2][block])?;
            let gap = ((sum * third)? - found)?.abs()?.max_all()?.to_scalar::<f32>()?;
            assert!(gap < 1e-5, "{gap}");
        }
        // Client tasks that have not begun have no share and no place.
        let two = shape.mix(&[&[0.5, 0.5, 0.0]], 1, &all);
        let name = others_name(0, ComponentPart::Key);
        assert_eq!(
            two.get(&name).unwrap().values,
            client_tasks[0].get("prompt.00.key").unwrap().values
        );
        Ok(())
    }
}
