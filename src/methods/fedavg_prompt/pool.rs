//! HePCo's prompt pool: all prompts of a block are used, weighted by the query.
//!
//! The prefix of block `j` is `rho_j(q) = sum_m cos(q, k_jm) P_jm`, without a softmax or a selection; cosines may be
//! negative. The first half of its rows are keys of the block's attention, the second half values.

use std::ops::Range;

use candle_core::Tensor;

use crate::learning::{PromptTensors, Prompting};
use crate::model::{Adaptation, ModelError, Parameter, ParameterSet, prompts};
use crate::numerics::distributions::unit;
use crate::numerics::streams::StreamKey;

/// Shape of the pools in the first blocks of a transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Number of blocks with a pool, from block 0 on.
    pub blocks: usize,
    /// Number of prompts of a block.
    pub pool: usize,
    /// Rows of a prompt, an even number: half keys, half values.
    pub length: usize,
    /// Width of a row, of a key and of a query.
    pub dim: usize,
}

/// Returns the name of the keys `(pool, d)` of a block.
pub fn keys_name(block: usize) -> String {
    format!("prompt.{block:02}.keys")
}

/// Returns the name of the prompts `(pool, length, d)` of a block.
pub fn prompts_name(block: usize) -> String {
    format!("prompt.{block:02}.prompts")
}

impl PoolShape {
    /// Returns the names and shapes of the parameters.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let PoolShape { blocks, pool, length, dim } = *self;
        let of = |block| {
            [(keys_name(block), vec![pool, dim]), (prompts_name(block), vec![pool, length, dim])]
        };
        (0..blocks).flat_map(of).collect()
    }

    /// Draws initial values: keys uniform on `[0, 1)`, prompts on `[0, prompt_init)`.
    ///
    /// The tensors draw at `key.step(1)`, `key.step(2)`, ...; step 0 belongs to the head.
    pub fn initial_parameters(&self, key: StreamKey, prompt_init: f64) -> ParameterSet {
        let mut set = ParameterSet::new();
        for (place, (name, shape)) in self.shapes().into_iter().enumerate() {
            let mut rng = key.step(1 + place as u64).rng();
            let is_keys = shape.len() == 2;
            let scale = if is_keys { 1.0 } else { prompt_init };
            let values =
                (0..shape.iter().product()).map(|_: usize| (scale * unit(&mut rng)) as f32);
            let values = values.collect();
            set.insert(name, Parameter { shape, values });
        }
        set
    }
}

/// Prompting that adds the weighted prompt of its pool to each of the first blocks.
#[derive(Clone, Copy, Debug)]
pub struct WeightedPool {
    /// Number of blocks with a pool, from block 0 on.
    pub blocks: usize,
}

impl Prompting for WeightedPool {
    fn first_block(&self) -> usize {
        0
    }

    /// Returns all rows: every task trains the whole pool.
    fn trained(&self, _name: &str, rows: usize) -> Range<usize> {
        0..rows
    }

    fn adapt(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Adaptation, ModelError> {
        let block = |j| {
            let weights = prompts::cosines(queries, pool.get(&keys_name(j))?)?;
            Ok(prompts::weighted(&weights, pool.get(&prompts_name(j))?)?)
        };
        let all = (0..self.blocks).map(block).collect::<Result<Vec<_>, ModelError>>()?;
        Adaptation::prompts(&all)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use candle_core::Device;

    use super::*;
    use crate::golden::Golden;
    use crate::numerics::streams::Domain;

    const SHAPE: PoolShape = PoolShape { blocks: 2, pool: 5, length: 4, dim: 8 };

    fn pool(seed: u64, prompt_init: f64) -> ParameterSet {
        SHAPE.initial_parameters(StreamKey::new(seed, Domain::Init), prompt_init)
    }

    /// Returns keys and values of all blocks for two samples, flat.
    fn prefixes(pool: &ParameterSet, factor: f32) -> Vec<f32> {
        let tensors: PromptTensors = pool
            .iter()
            .map(|(name, p)| (Arc::clone(name), p.tensor(&Device::Cpu).unwrap()))
            .collect();
        let queries: Vec<f32> = (0..16).map(|i| factor * (i as f32 * 1.3).sin()).collect();
        let queries = Tensor::from_vec(queries, (2, 8), &Device::Cpu).unwrap();
        let adapted = WeightedPool { blocks: 2 }.adapt(&tensors, &queries).unwrap();
        assert_eq!(adapted.prefix.len(), 2);
        let all = adapted.prefix.into_iter().flatten().flat_map(|prefix| {
            assert_eq!(prefix.keys.dims(), [2, 2, 8]);
            [prefix.keys, prefix.values]
        });
        all.flat_map(|t| t.flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect()
    }

    /// HePCo's card, invariant 2.
    #[test]
    fn prompts_are_linear_in_the_pool_odd_in_the_query_and_blind_to_its_length() {
        let plain = prefixes(&pool(1, 1.0), 1.0);
        let close = |a: &[f32], factor: f32| {
            assert!(a.iter().zip(&plain).all(|(a, b)| (a - factor * b).abs() < 1e-5));
        };
        close(&prefixes(&pool(1, 3.0), 1.0), 3.0);
        close(&prefixes(&pool(1, 1.0), 7.5), 1.0);
        close(&prefixes(&pool(1, 1.0), -1.0), -1.0);
        assert!(plain.iter().any(|v| v.abs() > 0.1));
    }

    /// HePCo's release, `L2P.forward`: the first half of rows are keys.
    #[test]
    fn golden_released_weighted_prompts() {
        let golden = Golden::own("released_hepco");
        let (keys, prompts) = (golden.tensor("server.keys"), golden.tensor("server.prompts"));
        let named = (0..2).flat_map(|block| {
            let prompts = prompts.get(block).unwrap().reshape((5, 2, 4)).unwrap();
            [(keys_name(block), keys.get(block).unwrap()), (prompts_name(block), prompts)]
        });
        let tensors: PromptTensors = named.collect();
        let queries = golden.tensor("z").narrow(0, 0, 3).unwrap();
        let adapted = WeightedPool { blocks: 2 }.adapt(&tensors, &queries).unwrap();
        let prefix = adapted.prefix[1].as_ref().expect("the second block has one");
        golden.assert_tensor("prompt.keys", &prefix.keys);
        golden.assert_tensor("prompt.values", &prefix.values);
    }

    #[test]
    fn start_values_fill_the_unit_interval() {
        let start = pool(4, 1.0);
        let shapes: Vec<_> = start.iter().map(|(n, p)| (n.to_string(), p.shape.clone())).collect();
        assert_eq!(shapes, SHAPE.shapes());
        let all: Vec<f32> = start.iter().flat_map(|(_, p)| p.values.to_vec()).collect();
        assert!(all.iter().all(|v| (0.0..1.0).contains(v)));
        let mean = all.iter().sum::<f32>() / all.len() as f32;
        assert!((mean - 0.5).abs() < 0.05, "{mean}");
        assert_ne!(start.get(&keys_name(0)), start.get(&keys_name(1)));
    }
}
