//! Pseudo-queries: outputs of a trained generator for drawn labels and noise.

use candle_core::Tensor;

use super::conditions::Conditions;
use super::generator::Generator;
use super::models::ConsolidationTeacher;
use super::prompt_distillation::DistillationBatch;
use crate::learning::LearningError;
use crate::numerics::streams::StreamKey;

/// Pseudo-queries and the labels they were made for.
#[derive(Clone)]
pub struct PseudoQueries {
    /// Queries `(b, d)`.
    pub queries: Tensor,
    /// Labels, as head rows.
    pub labels: Vec<u32>,
}

impl PseudoQueries {
    /// Generates `size` pseudo-queries, whose conditions are drawn at `key`.
    ///
    /// # Errors
    /// When a tensor operation fails.
    pub fn of(
        generator: &Generator,
        conditions: &Conditions,
        size: usize,
        key: StreamKey,
    ) -> Result<PseudoQueries, LearningError> {
        let batch = conditions.draw(size, key)?;
        let queries = generator.generate(&batch.labels, &batch.noise)?;
        Ok(PseudoQueries { queries, labels: batch.labels })
    }

    /// Appends the pseudo-queries of old classes, if there are any.
    ///
    /// # Errors
    /// When widths differ.
    pub fn and(self, old: Option<PseudoQueries>) -> Result<PseudoQueries, LearningError> {
        let Some(old) = old else { return Ok(self) };
        let queries = Tensor::cat(&[&self.queries, &old.queries], 0)?;
        Ok(PseudoQueries { queries, labels: [self.labels, old.labels].concat() })
    }

    /// Turns the pseudo-queries into a batch of distillation with these teachers.
    pub fn taught_by(self, teachers: &[ConsolidationTeacher]) -> DistillationBatch<'_> {
        DistillationBatch { queries: self.queries, labels: self.labels, teachers }
    }
}
