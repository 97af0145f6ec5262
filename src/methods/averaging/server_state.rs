//! State of the server of an averaging method besides the parameters.

use crate::model::ParameterSet;
use crate::policy::parameters_of;
use crate::quantity::TaskId;
use crate::wire::{Body, Saved, WireError};

/// Something that is saved with the parameters. The format is the method's own: its digest is in the journal. Of a
/// method whose clients are sent the previous model it may not be in the meta, nor among weights, prompts and heads.
pub trait ServerState: Saved + Default + Send + 'static {
    /// Returns the parameters of the server in a body that holds them and the memory.
    ///
    /// # Errors
    /// Numbers that are not f32.
    fn server_parameters(saved: &Body) -> Result<ParameterSet, WireError> {
        parameters_of(saved)
    }

    /// Enters a task; returns true if the server prepares anything for it now.
    fn is_new_task(&mut self, task: usize) -> bool {
        let _ = task;
        true
    }

    /// Returns the current task, from 0, if answers depend on it.
    fn task(&self) -> usize {
        0
    }
}

impl ServerState for () {}

/// The last task that was begun, for methods whose server prepares rows as a task starts: a server that was loaded
/// within a task has begun it before.
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
