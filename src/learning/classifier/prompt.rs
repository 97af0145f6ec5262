//! Prefix prompt that several methods train: names, shapes, initial values.

use crate::model::{Parameter, ParameterSet};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;

/// Returns the name of the prefix prompt of a block. Names sort in the order of blocks.
pub fn prompt_name(block: usize) -> String {
    format!("prompt.{block:02}")
}

/// Shape of a prefix prompt for the first blocks of a backbone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptShape {
    /// Number of blocks with a prompt, from block 0 on.
    pub blocks: usize,
    /// Rows per block, half of them keys and half values; even.
    pub length: usize,
    /// Width of a row.
    pub dim: usize,
}

impl PromptShape {
    /// Returns names and shapes of the parameters, in order of blocks.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        (0..self.blocks).map(|j| (prompt_name(j), vec![self.length, self.dim])).collect()
    }

    /// Returns initial values: normal with this standard deviation, or zeros if it is 0.
    ///
    /// Block `j` draws at `key.step(1 + j)`; step 0 is the head's.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    #[test]
    fn prompts_start_normal_or_at_zero_and_blocks_draw_apart() {
        let shape = PromptShape { blocks: 2, length: 50, dim: 40 };
        let key = StreamKey::new(1, Domain::Init);
        let drawn = shape.initial_parameters(0.5, key);
        let of = |block: usize| drawn.get(&prompt_name(block)).unwrap();
        assert_eq!((drawn.iter().count(), &of(0).shape), (2, &vec![50, 40]));
        assert_ne!(of(0).values, of(1).values);
        for block in 0..2 {
            let squares: f64 = of(block).values.iter().map(|v| f64::from(*v).powi(2)).sum();
            // Two thousand draws: a deviation of the estimate is 1.6 %.
            assert!(((squares / 2000.0).sqrt() - 0.5).abs() < 0.04, "{squares}");
        }
        let zeros = shape.initial_parameters(0.0, key);
        assert!(zeros.iter().all(|(_, prompt)| prompt.values.iter().all(|v| *v == 0.0)));
    }
}
