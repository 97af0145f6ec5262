//! The models that a consolidation compares, on the CPU, and each teacher's weight for a label.

use candle_core::{Device, Tensor};

use super::OmegaForm;
use crate::methods::fedavg_prompt::{PoolShape, keys_name, prompts_name};
use crate::model::{LinearHead, ModelError, ParameterSet};

/// Pool and head of one model, as constants.
#[derive(Clone, Debug)]
pub struct Model {
    /// Keys `(pool, d)` by block.
    pub keys: Vec<Tensor>,
    /// Prompts `(pool, length * d)` by block.
    pub prompts: Vec<Tensor>,
    /// Weight of the head, `(seen, d)`.
    pub weight: Tensor,
    /// Bias of the head, `(seen)`.
    pub bias: Tensor,
}

impl Model {
    /// Creates a model from parameters, with the head rows seen so far.
    ///
    /// # Errors
    /// When a parameter is missing or of another shape.
    pub fn new(
        parameters: &ParameterSet,
        shape: &PoolShape,
        seen: usize,
    ) -> Result<Model, ModelError> {
        let tensor = |name: &str| {
            let missing = || ModelError::Input { reason: format!("the server lacks `{name}`") };
            parameters.get(name).ok_or_else(missing)?.tensor(&Device::Cpu)
        };
        let flat = |block| tensor(&prompts_name(block))?.flatten_from(1).map_err(ModelError::from);
        Ok(Model {
            keys: (0..shape.blocks).map(|j| tensor(&keys_name(j))).collect::<Result<_, _>>()?,
            prompts: (0..shape.blocks).map(flat).collect::<Result<_, _>>()?,
            weight: tensor(LinearHead::WEIGHT)?.narrow(0, 0, seen)?,
            bias: tensor(LinearHead::BIAS)?.narrow(0, 0, seen)?,
        })
    }
}

/// Teacher of the distillation: a client of the round or the previous server.
#[derive(Clone, Debug)]
pub struct ConsolidationTeacher {
    /// Model as the client sent it, or that of the previous server.
    pub model: Model,
    /// Weight for every label, by head row: `omega_i(y)`, or 1.
    pub weights: Vec<f32>,
}

impl ConsolidationTeacher {
    /// Returns the teacher's weight for each of these labels.
    pub fn weights_of(&self, labels: &[u32]) -> Vec<f32> {
        labels.iter().map(|label| self.weights[*label as usize]).collect()
    }
}

/// Returns the weights `omega_i(y) = n_i(y) / N` of clients by head row, from their label counts.
///
/// With `OmegaForm::Normalized` all weights together sum to 1; with `OmegaForm::Release`, `N = sum_y max(n(y), 1)` also
/// counts classes that no client has.
pub fn omega(counts: &[Vec<u32>], form: OmegaForm) -> Vec<Vec<f32>> {
    let of_class = |row: usize| counts.iter().map(|counts| u64::from(counts[row])).sum();
    let classes = 0..counts.first().map_or(0, Vec::len);
    let all: u64 = classes
        .map(|row| match form {
            OmegaForm::Release => u64::max(of_class(row), 1),
            OmegaForm::Normalized => of_class(row),
        })
        .sum();
    let share = |count: &u32| (f64::from(*count) / all.max(1) as f64) as f32;
    counts.iter().map(|counts| counts.iter().map(share).collect()).collect()
}
