//! Losses of local training.

use std::ops::Range;

use candle_core::{DType, Device, Tensor};

use crate::learning::{Classifier, LearningError, PackBatch, PackLogits, PackOutputs};
use crate::model::Dropout;

/// Training step of a pack: the network and one batch of each member.
pub struct TrainingStep<'a> {
    /// Classifier that trains.
    pub model: &'a Classifier,
    /// Batches of all members, in one tensor.
    pub step: &'a PackBatch,
    /// Device that computes the step.
    pub device: &'a Device,
    /// Dropout inside adapters, or in a module between backbone and head.
    pub dropout: Option<Dropout>,
}

impl TrainingStep<'_> {
    /// Runs a forward pass; returns features and each member's cross-entropy over the rows that train.
    ///
    /// # Errors
    /// When the batch does not fit the network.
    pub fn outputs(&self) -> Result<PackOutputs, LearningError> {
        self.model.pack_outputs(self.step, self.device, self.dropout.clone())
    }

    /// Runs a forward pass as [`TrainingStep::outputs`], with other `labels`: head rows, one per sample.
    ///
    /// # Errors
    /// When the batch does not fit the network, or a label is not among the rows.
    pub fn labeled_outputs(&self, labels: &[u32]) -> Result<PackOutputs, LearningError> {
        self.model.labeled_outputs(self.step, labels, self.device, self.dropout.clone())
    }

    /// Runs a forward pass; returns features and logits on the rows that train, for other losses.
    ///
    /// # Errors
    /// When the batch does not fit the network.
    pub fn pack_logits(&self) -> Result<PackLogits, LearningError> {
        self.model.pack_logits(self.step, self.device, self.dropout.clone())
    }

    /// Returns the loss of each member's samples, `(members)`.
    ///
    /// `loss` gets the range of the member's samples in the batch and returns a scalar. A member without samples has
    /// loss 0.
    ///
    /// # Errors
    /// Returns the first error of `loss`.
    pub fn by_member(
        &self,
        mut loss: impl FnMut(Range<usize>) -> Result<Tensor, LearningError>,
    ) -> Result<Tensor, LearningError> {
        let of = |run: Range<usize>| match run.is_empty() {
            true => Ok(Tensor::zeros((), DType::F32, self.device)?),
            false => loss(run),
        };
        let losses = self.step.groups.runs().map(of).collect::<Result<Vec<_>, _>>()?;
        Ok(Tensor::stack(&losses, 0)?)
    }

    /// Runs a forward pass of a pack with one member and returns its logits, `(batch, rows)`.
    ///
    /// # Errors
    /// When the batch does not fit the network.
    pub fn logits(&self) -> Result<Tensor, LearningError> {
        self.model.training_logits(&self.step.batch, self.device, self.dropout.clone())
    }
}

/// Loss that local training minimizes; a new one is created for every pack.
pub trait Objective {
    /// Returns the loss of each member, `(members)`; for a pack of one it may be a scalar.
    ///
    /// # Errors
    /// Returns an error if the forward pass fails.
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError>;
}

/// Cross-entropy over the rows that train, without further terms.
pub struct CrossEntropy;

impl Objective for CrossEntropy {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        Ok(pass.outputs()?.losses)
    }
}
