//! What is particular to a method with prompts that depend on queries.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use candle_core::Tensor;

use crate::data::{SampleRows, Shard};
use crate::learning::{Classifier, LearningError, PackBatch, PackOutputs, Prompting};
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{Lab, PolicyError, WireForm};

/// Which prompts there are, whose they are, and how they are used. Tasks count from 0.
pub trait PromptKind: Clone + Debug + Send + Sync + 'static {
    /// Names and whole shapes of its parameters, all named `prompt.*`.
    fn shapes(&self) -> Vec<(String, Vec<usize>)>;

    /// Start values.
    fn initial_parameters(&self, init: StreamKey) -> ParameterSet;

    /// Whether the leading axis of a parameter counts what tasks own, so that messages may carry some rows.
    fn has_rows(&self, name: &str) -> bool;

    /// Those rows in a Down, and in a whole Up.
    fn down_rows(&self, task: usize, form: WireForm) -> Range<usize>;

    /// Those that a client of the task can change.
    fn own_rows(&self, task: usize) -> Range<usize>;

    /// Those that answers after the task depend on, from 0 on.
    fn inference_rows(&self, task: usize) -> Range<usize>;

    /// Whether a client can change any row of a parameter.
    fn changes(&self, name: &str) -> bool;

    /// Whether a Down carries nothing but what its receiver trains.
    fn down_is_lean(&self, form: WireForm) -> bool {
        let _ = form;
        false
    }

    /// The server's parameters as a task starts; `init` addresses its draws.
    fn begin_task(&self, task: usize, parameters: ParameterSet, init: StreamKey) -> ParameterSet {
        let _ = (task, init);
        parameters
    }

    /// How a client of the task trains.
    fn training(&self, task: usize) -> Arc<dyn Prompting>;

    /// How answers are given after the task.
    fn inference(&self, task: usize) -> Arc<dyn Prompting>;

    /// A loss that needs more than prompts and queries, for the members of a pack with these parameters.
    ///
    /// # Errors
    /// When parameters do not fit.
    fn extra_loss(
        &self,
        task: usize,
        received: &[ParameterSet],
        lab: &Lab,
    ) -> Result<Option<Box<dyn ExtraLoss>>, PolicyError> {
        let _ = (task, received, lab);
        Ok(None)
    }

    /// Forward passes of that loss for every pass of training.
    fn extra_passes(&self) -> f64 {
        0.0
    }

    /// What the journal says of a client's prompts after training, from the queries of its shard.
    ///
    /// # Errors
    /// When parameters do not fit.
    fn figures(
        &self,
        task: usize,
        learnt: &ParameterSet,
        queries: &dyn SampleRows,
        shard: &Shard,
    ) -> Result<Vec<(&'static str, f64)>, LearningError> {
        let _ = (task, learnt, queries, shard);
        Ok(Vec::new())
    }
}

/// A loss on top of that of a pack.
pub trait ExtraLoss {
    /// Of each member, `(members)`.
    ///
    /// # Errors
    /// What the network reports.
    fn losses(
        &self,
        model: &Classifier,
        step: &PackBatch,
        outputs: &PackOutputs,
    ) -> Result<Tensor, LearningError>;
}
