//! Step of the server after the mean.

use super::Demands;
use crate::methods::averaging::ClosedRound;
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    GeneratedImages, ImageRequest, MemoryFootprint, Metrics, ModelFacts, PolicyError, RoundContext,
    RunContext, Stage,
};
use crate::wire::Body;

/// Start of a task at the server.
#[derive(Clone, Copy, Debug)]
pub struct TaskStart<'a> {
    /// Dimensions of the model.
    pub model: &'a ModelFacts,
    /// Index of the task, from 0.
    pub task: usize,
    /// Stream key of initial draws.
    pub init: StreamKey,
}

/// End of a task at the server.
#[derive(Clone, Copy, Debug)]
pub struct TaskEnd<'a> {
    /// Dimensions of the model.
    pub model: &'a ModelFacts,
    /// Stage that ends.
    pub stage: &'a Stage,
    /// Stream key of initial draws.
    pub init: StreamKey,
}

/// Step of the server after the mean (ServerUpdate of Reddi et al. 2021), with the server's memory.
pub trait ServerUpdate<M> {
    /// Prepares the server's memory for a task, after the adaptation has prepared the parameters.
    fn begin_task(&self, start: TaskStart<'_>, memory: &mut M, theta: &mut ParameterSet) {
        let _ = (start, memory, theta);
    }

    /// Updates the parameters, which are the clients' mean; returns metrics of the round.
    ///
    /// # Errors
    /// An error ends the run.
    fn server_update(
        &self,
        memory: &mut M,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let _ = (memory, closing, theta);
        Ok(Metrics::new())
    }

    /// Updates the server's memory at the end of a task, from the final parameters.
    ///
    /// # Errors
    /// An error ends the run.
    fn end_task(
        &self,
        memory: &mut M,
        theta: &ParameterSet,
        end: TaskEnd<'_>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let _ = (memory, theta, end, ctx);
        Ok(())
    }

    /// Returns the generated images that clients replay, if a saved server has any.
    ///
    /// # Errors
    /// When the state belongs to another method, or a pass of the network fails.
    fn generated_images(
        &self,
        model: &ModelFacts,
        saved: &Body,
        request: &ImageRequest<'_>,
    ) -> Result<Option<GeneratedImages>, PolicyError> {
        let _ = (model, saved, request);
        Ok(None)
    }

    /// Returns the sample passes of the server's step after `updates` uploads, for virtual time.
    fn work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        let _ = (model, round, updates);
        0.0
    }

    /// Returns the bytes that server and clients hold between rounds; `None` if not known in advance.
    fn memory_footprint(&self, model: &ModelFacts) -> Option<MemoryFootprint> {
        let _ = model;
        None
    }

    /// Returns the demands of the step on scenario and engine.
    fn demands(&self) -> Demands {
        Demands::default()
    }
}

/// Server of FedAvg: the mean alone.
pub struct PlainMean;

impl<M> ServerUpdate<M> for PlainMean {}
