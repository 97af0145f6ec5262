//! Training of a generator: pseudo-queries that the teachers classify as requested, and on which they disagree with the
//! server.

use candle_core::{Result, Tensor};

use super::conditions::Conditions;
use super::disagreement::Disagreement;
use super::divergence::{DivergenceTerms, Heads};
use super::generator::{Generator, GeneratorShape};
use super::models::{ConsolidationTeacher, Model};
use crate::learning::optimizer::Adam;
use crate::learning::{LearningError, OptimizerConfig};
use crate::methods::hepco::consolidation::{KlForm, MseGradient};
use crate::numerics::streams::StreamKey;

/// Weights of the disagreement terms, and the direction in which they are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GenerationLoss {
    /// Lambda of the divergence of heads.
    pub kl: f64,
    /// Lambda of the distance of weighted prompts.
    pub mse: f64,
    /// Effect of the distance on a generator.
    pub gradient: MseGradient,
    /// Order of the divergence's arguments.
    pub form: KlForm,
}

/// Objective of a generator, with a fixed server and fixed teachers.
pub struct GeneratorObjective<'a> {
    teachers: &'a [ConsolidationTeacher],
    heads: Heads,
    disagreement: Option<Disagreement>,
    loss: GenerationLoss,
}

/// The terms of the objective, before they are weighted; sums over a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Value {
    /// Classification and divergence of the teachers' heads.
    pub heads: DivergenceTerms,
    /// `sum_b sum_i w_i(b) sum_j |rho_w - rho_i|^2`; 0 where it does not count.
    pub distance: f64,
}

impl<'a> GeneratorObjective<'a> {
    /// Creates the objective of a server and its teachers.
    ///
    /// # Errors
    /// When models differ in shape.
    pub fn new(
        server: &Model,
        teachers: &'a [ConsolidationTeacher],
        loss: GenerationLoss,
    ) -> Result<GeneratorObjective<'a>> {
        let apart = || Disagreement::new(server, teachers);
        let disagreement = (loss.mse != 0.0).then(apart).transpose()?;
        Ok(GeneratorObjective {
            teachers,
            heads: Heads::new(server, teachers)?,
            disagreement,
            loss,
        })
    }

    /// Returns the objective `classification - kl * divergence - mse * distance`, a scalar, and its terms.
    ///
    /// Queries are `(b, d)`, generated for these labels. `MseGradient` decides whether the distance enters as a sum, as
    /// a mean over queries and entries of prompts, or without a gradient.
    ///
    /// # Errors
    /// When queries have another width.
    pub fn value(&self, queries: &Tensor, labels: &[u32]) -> Result<(Tensor, Value)> {
        let GenerationLoss { kl, mse, gradient, form } = self.loss;
        let weights: Vec<_> = self.teachers.iter().map(|t| t.weights_of(labels)).collect();
        let (total, heads) = self.heads.loss(queries, labels, &weights, (kl, form))?;
        let Some(disagreement) = &self.disagreement else {
            return Ok((total, Value { heads, distance: 0.0 }));
        };
        let apart = match gradient {
            MseGradient::Detached => disagreement.loss(&queries.detach(), &weights)?,
            MseGradient::Mean | MseGradient::Sum => disagreement.loss(queries, &weights)?,
        };
        let distance = f64::from(apart.to_scalar::<f32>()?);
        let terms = match gradient {
            MseGradient::Mean => labels.len() * disagreement.entries(),
            MseGradient::Detached | MseGradient::Sum => 1,
        };
        Ok(((total - (apart * (mse / terms.max(1) as f64))?)?, Value { heads, distance }))
    }
}

/// Number, batch size and learning rate of a generator's training steps (Adam).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// Number of steps.
    pub count: u32,
    /// Pseudo-queries per step.
    pub batch: usize,
    /// Learning rate.
    pub rate: f64,
}

/// Returns the optimizer of all training at the server: Adam without weight decay.
pub fn adam(learning_rate: f64) -> OptimizerConfig {
    OptimizerConfig::Adam(Adam { learning_rate, ..Adam::default() })
}

/// Trains a new generator and returns it with the terms of its objective in the last step.
///
/// Start values are drawn at `key.step(0)`, batch `s` at `key.step(1 + s)`.
///
/// # Errors
/// When the loss is not finite, or a tensor operation fails.
pub fn train_generator(
    shape: &GeneratorShape,
    objective: &GeneratorObjective<'_>,
    conditions: &Conditions,
    steps: Steps,
    key: StreamKey,
) -> std::result::Result<(Generator, Value), LearningError> {
    let mut generator = Generator::new(shape, key.step(0))?;
    let mut optimizer = adam(steps.rate).over(generator.vars());
    let mut last = Value::default();
    for step in 0..u64::from(steps.count) {
        let batch = conditions.draw(steps.batch, key.step(1 + step))?;
        let queries = generator.train(&batch.labels, &batch.noise)?;
        let (total, value) = objective.value(&queries, &batch.labels)?;
        last = value;
        if !total.to_scalar::<f32>()?.is_finite() {
            return Err(LearningError::NonFinite { what: "loss of the generator".into(), step });
        }
        optimizer.step(&total.backward()?, steps.rate, 1.0)?;
    }
    Ok((generator, last))
}
