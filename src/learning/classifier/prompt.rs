//! The prefix prompt that several methods train: names, shapes, start values.

use crate::model::{Parameter, ParameterSet};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;

/// Name of the prefix prompt of a block; names sort as blocks do.
pub fn prompt_name(block: usize) -> String {
    format!("prompt.{block:02}")
}

/// A prefix prompt for the first blocks of a backbone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptShape {
    /// Blocks that have one, from block 0 on.
    pub blocks: usize,
    /// Rows per block, half of them keys and half values; even.
    pub length: usize,
    /// Width of a row.
    pub dim: usize,
}

impl PromptShape {
    /// Names and shapes, in order of blocks.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        (0..self.blocks).map(|j| (prompt_name(j), vec![self.length, self.dim])).collect()
    }

    /// Start values: normal with this standard deviation, or zeros for 0. Block `j` draws at
    /// `key.step(1 + j)`; step 0 is the head's.
    pub fn initial_parameters(&self, deviation: f32, key: StreamKey) -> ParameterSet {
        let parameter = |block: usize| {
            let mut values = vec![0.0; self.length * self.dim];
            if deviation > 0.0 {
                fill_normal(&mut key.step(1 + block as u64).rng(), &mut values);
                values.iter_mut().for_each(|v| *v *= deviation);
            }
            Parameter { shape: vec![self.length, self.dim], values: values.into() }
        };
        (0..self.blocks).map(|block| (prompt_name(block), parameter(block))).collect()
    }
}
