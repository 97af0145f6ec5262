//! The loss of local training.

use candle_core::{Device, Tensor};

use crate::learning::{Classifier, LearningError, PackBatch, PackOutputs};
use crate::model::Dropout;

/// One step of a pack.
pub struct Pass<'a> {
    /// The classifier that trains.
    pub model: &'a Classifier,
    /// The samples of the members.
    pub step: &'a PackBatch,
    /// Where it is computed.
    pub device: &'a Device,
    /// What is dropped inside adapters, or in a module.
    pub dropout: Option<Dropout>,
}

impl Pass<'_> {
    /// A forward pass: features, and the cross-entropy of each member over the rows that train.
    ///
    /// # Errors
    /// When the batch does not fit the network.
    pub fn outputs(&self) -> Result<PackOutputs, LearningError> {
        self.model.pack_outputs(self.step, self.device, self.dropout.clone())
    }

    /// A forward pass of a pack of one: logits `(b, rows)`.
    ///
    /// # Errors
    /// When the batch does not fit the network.
    pub fn logits(&self) -> Result<Tensor, LearningError> {
        self.model.training_logits(&self.step.batch, self.device, self.dropout.clone())
    }
}

/// A loss, made anew for the training of a pack.
pub trait Objective {
    /// Of each member, `(members)`; a scalar will do for a pack of one.
    ///
    /// # Errors
    /// What the network reports.
    fn losses(&mut self, pass: &Pass<'_>) -> Result<Tensor, LearningError>;
}

/// The cross-entropy alone.
pub struct CrossEntropy;

impl Objective for CrossEntropy {
    fn losses(&mut self, pass: &Pass<'_>) -> Result<Tensor, LearningError> {
        Ok(pass.outputs()?.losses)
    }
}
