//! Distillation of the head: mean cross-entropy on pseudo-queries, all classes seen competing.

use candle_core::{Result, Tensor, Var};

use super::generation::adam;
use super::models::Model;
use crate::learning::{LearningError, Optimizer};
use crate::model::ops;

/// Rows of classes seen of the server's head, which are trained.
pub struct HeadStudent {
    /// `(seen, d)`.
    pub weight: Var,
    /// `(seen)`.
    pub bias: Var,
}

impl HeadStudent {
    /// Creates a student that is a copy of the server's head.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn new(server: &Model) -> Result<HeadStudent> {
        let (weight, bias) = (server.weight.contiguous()?, server.bias.contiguous()?);
        Ok(HeadStudent { weight: Var::from_tensor(&weight)?, bias: Var::from_tensor(&bias)? })
    }

    /// Returns Adam over weight and bias.
    pub fn optimizer(&self, rate: f64) -> Optimizer {
        adam(rate).over(vec![self.weight.clone(), self.bias.clone()])
    }

    /// Returns the mean cross-entropy of pseudo-queries `(b, d)` with their labels, a scalar.
    ///
    /// # Errors
    /// When queries and labels do not fit.
    pub fn loss(&self, queries: &Tensor, labels: &[u32]) -> Result<Tensor> {
        let logits = ops::linear(queries, &self.weight, Some(&self.bias))?;
        ops::cross_entropy(&logits, labels, 0..self.bias.elem_count())
    }

    /// Makes one step and returns the loss before it.
    ///
    /// # Errors
    /// When queries and labels do not fit.
    pub fn step(
        &mut self,
        (queries, labels): (&Tensor, &[u32]),
        optimizer: &mut Optimizer,
        rate: f64,
    ) -> std::result::Result<f64, LearningError> {
        let loss = self.loss(queries, labels)?;
        optimizer.step(&loss.backward()?, rate, 1.0)?;
        Ok(f64::from(loss.to_scalar::<f32>()?))
    }
}
