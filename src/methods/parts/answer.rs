//! Predictors that need more than the parameters.

use std::sync::Arc;

use crate::model::ParameterSet;
use crate::policy::{Message, ModelFacts, PolicyError, Predictor, RunContext};

/// Predictors that need more than the parameters; where there is none the adaptation's answers.
pub trait Answer<M> {
    /// Returns the predictor of the server with this memory and these whole parameters.
    ///
    /// # Errors
    /// When they do not fit the backbone.
    fn server_predictor(
        &self,
        model: &ModelFacts,
        memory: &M,
        theta: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError>;

    /// Returns the predictor of a client before its upload is averaged: of these whole parameters, of which it trained
    /// some, and what else it was sent.
    ///
    /// # Errors
    /// When they do not fit the backbone.
    fn client_predictor(
        &self,
        model: &ModelFacts,
        task: usize,
        sent: &Message,
        theta: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let _ = (model, task, sent, theta, ctx);
        Ok(None)
    }
}
