//! State of the server of an averaging method besides the parameters.

use crate::model::ParameterSet;
use crate::policy::parameters_of;
use crate::quantity::TaskId;
use crate::wire::{Body, Saved, WireError};

/// State of a method's server, saved in one body with the parameters.
///
/// The digest of the saved body is in the journal. For methods that send the previous model, the state must use no
/// meta, and no sections of weights, prompts or heads: those are the saved models'.
pub trait ServerState: Saved + Default + Send + 'static {
    /// Returns the parameters of a body that contains parameters and this state.
    ///
    /// # Errors
    /// When the values of a parameter are not f32.
    fn server_parameters(saved: &Body) -> Result<ParameterSet, WireError> {
        parameters_of(saved)
    }

    /// Enters a task, from 0; returns true if the server has yet to prepare its parameters for it.
    fn is_new_task(&mut self, task: usize) -> bool {
        let _ = task;
        true
    }

    /// Returns the current task, from 0; always 0 if predictions do not depend on it.
    fn task(&self) -> usize {
        0
    }
}

impl ServerState for () {}

/// Latest task that was begun, for methods whose server prepares rows as a task starts.
///
/// It is saved, so that a server loaded within a task does not prepare the rows again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Saved)]
pub struct LatestTask(Option<TaskId>);

impl ServerState for LatestTask {
    fn is_new_task(&mut self, task: usize) -> bool {
        let task = TaskId(task as u16);
        self.0.replace(task) != Some(task)
    }

    fn task(&self) -> usize {
        self.0.map_or(0, TaskId::index)
    }
}
