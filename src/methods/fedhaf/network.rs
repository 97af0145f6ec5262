//! FedHAF's two networks over frozen features: the module `g` and the head `h`, each frozen or in training.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor, Var};

use super::NetworkShape;
use crate::learning::{head_rows, with_head_rows};
use crate::model::{
    Adjustment, ByBatch, Drops, LinearHead, ModelError, Parameter, ParameterSet, Residual, Trains,
    Variables, ops,
};

/// Module, hidden layer and head rows over frozen features.
#[derive(Clone, Debug)]
pub(super) struct FedHafNetwork {
    below: Adjustment,
    classifier: LinearHead,
    rows: Range<usize>,
    by_batch: ByBatch,
    variables: Variables,
    received: ParameterSet,
}

impl FedHafNetwork {
    /// Creates a network of the `received` parameters, with new variables for the parts in `trains`.
    ///
    /// Its head has the rows `rows`.
    ///
    /// # Errors
    /// When a parameter is missing or has another shape.
    pub fn new(
        shape: &NetworkShape,
        received: &ParameterSet,
        trains: Trains,
        rows: Range<usize>,
        by_batch: ByBatch,
        device: &Device,
    ) -> Result<FedHafNetwork, ModelError> {
        let own = head_rows(received, rows.clone())?;
        let residual = shape.module.map_or(Residual::None, |module| module.residual);
        let below = Adjustment::new(&own, residual, trains, by_batch, device)?;
        let mut variables = below.variables().clone();
        let classifier = match trains.head {
            false => LinearHead::frozen_at(&own, device)?,
            true => {
                let (head, of_head) = LinearHead::trainable_at(&own, device)?;
                variables.extend(of_head);
                head
            }
        };
        variables.sort_by(|a, b| a.0.cmp(&b.0));
        let received = received.clone();
        Ok(FedHafNetwork { below, classifier, rows, by_batch, variables, received })
    }

    /// Returns the trained variables, sorted by name.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Returns the trained variables without their names.
    pub fn vars(&self) -> Vec<Var> {
        self.variables.iter().map(|(_, var)| var.clone()).collect()
    }

    /// Returns the head rows of its outputs.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Returns true if the output for a sample depends on its batch.
    pub fn goes_by_batch(&self) -> bool {
        self.by_batch.any()
    }

    /// Returns the module's output `g`: `(b, width)` adjusted features for frozen ones `(b, d)`.
    ///
    /// # Errors
    /// When the features do not fit.
    pub fn adjust(&self, features: &Tensor, drops: Option<Drops>) -> candle_core::Result<Tensor> {
        self.below.adjust(features, drops)
    }

    /// Returns the head's output `h`: logits `(b, rows)` for adjusted features `(b, width)`.
    ///
    /// # Errors
    /// When the features do not fit.
    pub fn logits(&self, adjusted: &Tensor, drops: Option<Drops>) -> candle_core::Result<Tensor> {
        let LinearHead { weight, bias } = &self.classifier;
        ops::linear(&self.below.hidden(adjusted, drops)?, weight, Some(bias))
    }

    /// Returns all received parameters, with trained ones and running statistics at their current values.
    ///
    /// # Errors
    /// Returns the errors of the device.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        let mut own = head_rows(&self.received, self.rows.clone())?;
        for (name, variable) in &self.variables {
            own.insert(Arc::clone(name), Parameter::of(variable)?);
        }
        for (name, buffer) in self.below.buffers()?.iter() {
            own.insert(Arc::clone(name), buffer.clone());
        }
        with_head_rows(&self.received, &own, self.rows.start)
    }
}
