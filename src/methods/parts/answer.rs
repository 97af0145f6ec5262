//! Predictors that need more than the parameters.

use std::sync::Arc;

use super::Demands;
use crate::model::ParameterSet;
use crate::policy::{Message, ModelFacts, PolicyError, Predictor, RunContext};

/// Predictors that need more than the parameters; if there is none, the adaptation's predictor is used.
pub trait Answer<M> {
    /// Returns the server's predictor from its memory and whole parameters; `None`: the adaptation's.
    ///
    /// # Errors
    /// When the parameters do not fit the backbone.
    fn server_predictor(
        &self,
        model: &ModelFacts,
        memory: &M,
        theta: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError>;

    /// Returns the predictor of a client before its upload is averaged; `None`: the adaptation's.
    ///
    /// `theta` are whole parameters, some of which the client trained; `sent` is its download.
    ///
    /// # Errors
    /// When the parameters do not fit the backbone.
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

    /// Returns the demands of the predictors on scenario and engine.
    fn demands(&self) -> Demands {
        Demands::default()
    }
}
